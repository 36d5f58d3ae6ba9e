# lares_module(FOLDER [NAME name] [EXCEPT file...] LINKS target...)
#
# A module is a folder of src/: every *.cc but the tests becomes the library lares_<name>, every
# *_test.cc goes into the program <name>_tests, one ctest entry per test case.
function(lares_module folder)
  cmake_parse_arguments(arg "" "NAME" "LINKS;EXCEPT" ${ARGN})
  if(NOT arg_NAME)
    set(arg_NAME ${folder})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  foreach(file ${arg_EXCEPT})
    list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/src/${folder}/${file})
  endforeach()

  set(library lares_${arg_NAME})
  if(sources)
    add_library(${library} STATIC ${sources})
    target_include_directories(${library} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${library} PUBLIC ${arg_LINKS})
  else()
    add_library(${library} INTERFACE)
    target_include_directories(${library} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${library} INTERFACE ${arg_LINKS})
  endif()

  if(tests AND BUILD_TESTING)
    add_executable(${arg_NAME}_tests ${tests})
    target_link_libraries(${arg_NAME}_tests PRIVATE ${library} GTest::gtest_main rapidcheck_headers)
    target_compile_definitions(${arg_NAME}_tests PRIVATE LARES_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    set_target_properties(${arg_NAME}_tests PROPERTIES BUILD_RPATH "${CMAKE_BINARY_DIR}/lib")
    include(GoogleTest)
    gtest_discover_tests(${arg_NAME}_tests TEST_PREFIX "${arg_NAME}." DISCOVERY_TIMEOUT 120
                         PROPERTIES TIMEOUT 120)
  endif()
endfunction()

# Debian's rapidcheck has no CMake package of its own on every release.
add_library(rapidcheck_headers INTERFACE)
find_library(RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
target_link_libraries(rapidcheck_headers INTERFACE ${RAPIDCHECK_LIBRARY})
