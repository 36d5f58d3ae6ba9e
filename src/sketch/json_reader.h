// A small reader of JSON text that keeps numbers as they were written and knows places.
//
// Pure. Recursion and size are bounded by the limits. (core/json.h tells neither: its numbers are
// floating point, and its errors know bytes, not lines and columns.)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "sketch/problem.h"

namespace lares::sketch {

struct JsonValue {
  enum class Kind : std::uint8_t { Null, False, True, Number, String, Array, Object };

  Kind kind = Kind::Null;
  Place place;
  std::string text;               // String: its content. Number: as written.
  std::vector<std::string> keys;  // Object: beside `items`. No key stands twice.
  std::vector<JsonValue> items;   // Array, Object.

  [[nodiscard]] const JsonValue* find(std::string_view key) const;
};

// "a string", "an object": for messages.
std::string_view kind_name(const JsonValue& value);

// At most `depth_max` arrays and objects within each other, `values_max` values. Errors: L1, L2.
tl::expected<JsonValue, Problem> read_json_value(std::string_view text, std::uint32_t depth_max,
                                                 std::uint32_t values_max);

}  // namespace lares::sketch
