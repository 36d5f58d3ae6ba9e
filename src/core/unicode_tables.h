// Tables of core/unicode.cc: rows in the order of their first member.
#pragma once

#include <cstdint>
#include <span>

namespace lares::unicode {

struct Range {
  std::uint32_t first, last;
};
struct LowerCase {
  std::uint32_t first, last, stride;
  std::int32_t difference;
};
struct CombiningClass {
  std::uint32_t first, last, value;
};
// `second` is 0 where one code point stands for another.
struct Decomposition {
  std::uint32_t code, first, second, composes;
};

extern const std::span<const Range> letters;  // General category L.
extern const std::span<const Range> numbers;  // N.
extern const std::span<const LowerCase> lower_cases;
extern const std::span<const CombiningClass> combining_classes;
extern const std::span<const Decomposition> decompositions;  // Canonical ones.

}  // namespace lares::unicode
