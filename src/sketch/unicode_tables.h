// Tables of Unicode's properties, sorted by code point; see unicode.h, which alone reads them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lares::sketch {

struct CodeRange {
  char32_t first, last;  // Both included; of kComposition, the two that become one.
};
struct ClassRange {
  char32_t first, last;
  std::uint8_t combining_class;
};

extern const CodeRange kNameStart[];
extern const std::size_t kNameStartCount;
extern const CodeRange kNameContinue[];  // Beside those that may start a name.
extern const std::size_t kNameContinueCount;
extern const CodeRange kNeverComposed[];
extern const std::size_t kNeverComposedCount;
extern const CodeRange kComposition[];
extern const std::size_t kCompositionCount;
extern const ClassRange kCombiningClass[];
extern const std::size_t kCombiningClassCount;

}  // namespace lares::sketch
