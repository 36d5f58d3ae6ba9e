# What is checked beside the tests: the house rules, the formatting, and that each header compiles alone.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME tidy.tree COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/tidy)
add_test(NAME tidy.self_test COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/tidy --self-test)

find_program(CLANG_FORMAT clang-format-14 clang-format)
if(CLANG_FORMAT)
  # In a shell, so that files are found when the test runs.
  add_test(NAME tidy.format WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    COMMAND sh -c "find src tests bench -name '*.h' -o -name '*.cc' | xargs '${CLANG_FORMAT}' --dry-run -Werror")
endif()

# x.cc includes x.h first (tools/tidy holds it to that), which proves those headers; this compiles those
# that have no source of their own.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/src/*.h)
if(NOT LARES_LLAMA)
  list(FILTER headers EXCLUDE REGEX "^(engine/(llm|diffusion)|text/llama)/")
endif()
set(alone "")
foreach(header ${headers})
  string(REGEX REPLACE "\\.h$" ".cc" source ${header})
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/src/${source})
    string(MAKE_C_IDENTIFIER ${header} name)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers_alone/${name}.cc
         CONTENT "#include \"${header}\"\n" @ONLY)
    list(APPEND alone ${CMAKE_BINARY_DIR}/headers_alone/${name}.cc)
  endif()
endforeach()
add_library(headers_alone OBJECT ${alone})
target_link_libraries(headers_alone PRIVATE lares_app GTest::gtest)
