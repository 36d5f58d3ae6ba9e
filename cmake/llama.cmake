# llama::llama and llama::common: the pinned release of llama.cpp (tools/fetch_llama.sh).
if(NOT LARES_LLAMA)
  return()
endif()
if(NOT LARES_LLAMA_DIR)
  message(STATUS "llama.cpp: looking in the dependency cache")
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/fetch_llama.sh OUTPUT_VARIABLE fetched
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "llama.cpp could not be fetched; see the lines above, then run this again")
  endif()
  set(LARES_LLAMA_DIR "${fetched}" CACHE PATH "" FORCE)
endif()

file(GLOB llama_libraries ${LARES_LLAMA_DIR}/lib/*.so)
file(GLOB llama_main ${LARES_LLAMA_DIR}/lib/libllama.v*.so)
file(GLOB ggml_main ${LARES_LLAMA_DIR}/lib/libggml.v*.so)
if(NOT llama_main OR NOT ggml_main)
  message(FATAL_ERROR "no llama.cpp libraries in ${LARES_LLAMA_DIR}/lib: delete that folder and run this again")
endif()

function(llama_target name library)
  add_library(${name} SHARED IMPORTED GLOBAL)
  # SYSTEM: their headers do not hold to our warnings.
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${library}
    INTERFACE_INCLUDE_DIRECTORIES "${LARES_LLAMA_DIR}/src/include;${LARES_LLAMA_DIR}/src/ggml/include;${LARES_LLAMA_DIR}/src/common")
endfunction()
llama_target(llama::ggml_base ${LARES_LLAMA_DIR}/lib/libggml-base.so)
llama_target(llama::ggml ${ggml_main})
llama_target(llama::llama ${llama_main})
llama_target(llama::common ${LARES_LLAMA_DIR}/lib/libllama-common.so)
set_property(TARGET llama::ggml PROPERTY INTERFACE_LINK_LIBRARIES llama::ggml_base)
set_property(TARGET llama::llama PROPERTY INTERFACE_LINK_LIBRARIES llama::ggml)
set_property(TARGET llama::common PROPERTY INTERFACE_LINK_LIBRARIES llama::llama)

# The libraries look for each other beside themselves; ours finds them in build/lib.
function(lares_copy_llama_libraries target)
  set(stamp ${CMAKE_BINARY_DIR}/lib/.stamp)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/lib
    COMMAND ${CMAKE_COMMAND} -E copy ${llama_libraries} ${CMAKE_BINARY_DIR}/lib
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${llama_libraries} COMMENT "copying llama.cpp's libraries to lib/")
  add_custom_target(llama_libraries DEPENDS ${stamp})
  add_dependencies(${target} llama_libraries)
endfunction()
