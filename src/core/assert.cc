#include "core/assert.h"

#include <cstdio>
#include <cstdlib>

namespace lares {

void assert_failed(std::string_view condition, std::string_view file, int line,
                   std::string_view details) {
  fmt::print(stderr, "{}:{}: bug: `{}` does not hold: {}\n", file, line, condition, details);
  std::fflush(stderr);
  std::abort();
}

}  // namespace lares
