# The Debian package: `cpack --config build/CPackConfig.cmake`. Everything of ours lies in lib/lares, the
# libraries beside the binary, where it looks for them; the starter models come along.
include(GNUInstallDirs)
set(private ${CMAKE_INSTALL_LIBDIR}/lares)
install(TARGETS lares RUNTIME DESTINATION ${private})
if(LARES_LLAMA)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/lib/ DESTINATION ${private}/lib FILES_MATCHING PATTERN "*.so")
endif()
file(RELATIVE_PATH to_binary /usr/bin /usr/${private}/lares)
file(CREATE_LINK ${to_binary} ${CMAKE_BINARY_DIR}/lares-link SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/lares-link DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME lares)
install(DIRECTORY models/starter/ DESTINATION ${CMAKE_INSTALL_DATADIR}/lares/models/starter
        FILES_MATCHING PATTERN "*-q8_0.gguf" PATTERN "starter-embed-f16.gguf" PATTERN "starter-image/*"
        PATTERN "golden" EXCLUDE)
install(FILES packaging/lares.service DESTINATION lib/systemd/system)
install(FILES packaging/lares.toml DESTINATION /etc/lares)
install(FILES LICENSE THIRD_PARTY.md README.md CHANGELOG.md SECURITY.md examples/lares.toml
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Manual pages, from what the commands say of themselves.
find_program(PYTHON3 python3 REQUIRED)
install(CODE "execute_process(COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/tools/make_man.py $<TARGET_FILE:lares>
  \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1 COMMAND_ERROR_IS_FATAL ANY)")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lares)
set(CPACK_PACKAGE_VENDOR "The Lares authors")
set(CPACK_PACKAGE_CONTACT "The Lares authors <lares@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "one accelerator for the whole household")
set(CPACK_PACKAGE_DESCRIPTION "Lares lets everybody at home share one accelerator: voice commands, chats, agents,
long documents, embeddings and pictures go through one scheduler, one memory ledger and one usage ledger.
It speaks OpenAI's and Ollama's interfaces.")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_SOURCE_DIR}/packaging/postinst;${CMAKE_SOURCE_DIR}/packaging/prerm;${CMAKE_SOURCE_DIR}/packaging/postrm;${CMAKE_SOURCE_DIR}/packaging/conffiles")
include(CPack)
