// LARES_ASSERT: for bugs only, always on, prints the values, aborts.
//
// Never reachable by what a person or a file can say; those get an Error. What a crash interrupts
// is resumed after the restart.
#pragma once

#include <string_view>

#include <fmt/format.h>

namespace lares {

[[noreturn]] void assert_failed(std::string_view condition, std::string_view file, int line,
                                std::string_view details);

}  // namespace lares

// LARES_ASSERT(used <= total, "used {} total {}", used, total);
#define LARES_ASSERT(condition, ...)                                                      \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      ::lares::assert_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
    }                                                                                     \
  } while (false)
