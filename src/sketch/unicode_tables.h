// Tables of Unicode's properties, sorted by code point; see unicode.h, which alone reads them.
#pragma once

#include <cstddef>

namespace lares::sketch {

struct CodeRange {
  char32_t first, last;  // Both included.
};
extern const CodeRange kNameStart[];
extern const std::size_t kNameStartCount;
extern const CodeRange kNameContinue[];  // Beside those that may start a name.
extern const std::size_t kNameContinueCount;

}  // namespace lares::sketch
