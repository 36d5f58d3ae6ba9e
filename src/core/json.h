// JSON as native values: parsing within limits, compact writing, and reading fields so that an
// error names the place. The library behind it (Boost.JSON) is confined to json.cc.
//
// Pure; any thread. Text is UTF-8 throughout: parse() refuses anything else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/result.h"

namespace lares::json {

class Value;
using Array = std::vector<Value>;
using Member = std::pair<std::string, Value>;
using Object = std::vector<Member>;  // In the order written; of equal names the last one is kept.

class Value {
 public:
  // Unsigned only for what does not fit into a signed one.
  using Data = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string,
                            Array, Object>;

  Value() = default;
  Value(std::nullptr_t) {}                         // NOLINT(google-explicit-constructor)
  Value(bool b) : data_(b) {}                      // NOLINT(google-explicit-constructor)
  Value(std::int64_t i) : data_(i) {}              // NOLINT(google-explicit-constructor)
  Value(std::uint64_t u) : data_(u) {}             // NOLINT(google-explicit-constructor)
  Value(double d) : data_(d) {}                    // NOLINT(google-explicit-constructor)
  Value(std::string s) : data_(std::move(s)) {}    // NOLINT(google-explicit-constructor)
  Value(const char* s) : data_(std::string(s)) {}  // NOLINT(google-explicit-constructor)
  Value(Array a) : data_(std::move(a)) {}          // NOLINT(google-explicit-constructor)
  Value(Object o) : data_(std::move(o)) {}         // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(data_); }
  // The value as that type, or nullptr.
  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&data_);
  }
  [[nodiscard]] const Data& data() const { return data_; }
  // Any kind of number, as a double.
  [[nodiscard]] std::optional<double> number() const;
  // A whole number, also one written as 3.0; nothing if it is not whole or does not fit.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  // Member of an object; nullptr if there is none, or this is no object.
  [[nodiscard]] const Value* find(std::string_view name) const;

  bool operator==(const Value&) const = default;

 private:
  Data data_ = nullptr;
};

struct Limits {
  std::uint32_t depth = 32;          // Arrays and objects within each other.
  std::uint32_t values = 1U << 20U;  // Values and members in all: they take 40 bytes each.
};

// Errors: Invalid, with the byte at which the text stops making sense, TooLarge beyond the limits.
Result<Value> parse(std::string_view text, const Limits& limits = {});

// Compact; numbers in their shortest form. Not finite numbers are written as null.
void append(std::string& out, const Value& value);
std::string to_text(const Value& value);

// The first thing found wrong with a value, and where.
struct Problem {
  std::string param;    // "messages[2].content"; "" while all is well.
  std::string message;  // "messages[2].content must be a string, not a number"
  explicit operator bool() const { return !message.empty(); }
};

// Reads the members of one object. A member that is absent or null reads as nothing; a wrong type
// or a value out of range does too and is noted in `problem`, unless something was noted before.
// The object and the problem must outlive it.
class Fields {
 public:
  // A `value` that is no object is noted as well.
  Fields(const Value& value, std::string path, Problem& problem);

  [[nodiscard]] const Value* find(std::string_view name) const;  // nullptr if absent or null.
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<double> number(std::string_view name, double least, double most) const;
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least,
                                      std::int64_t most) const;
  const std::string* string(std::string_view name) const;
  const Array* array(std::string_view name) const;
  const Object* object(std::string_view name) const;

  // "messages[2]" + "content" -> "messages[2].content"
  [[nodiscard]] std::string path(std::string_view name) const;
  // Notes "<path of name> <what>".
  void note(std::string_view name, std::string_view what) const;

 private:
  const Value* value_;
  std::string path_;
  Problem* problem_;
};

// "a string", "a number", "an object"...: for messages.
std::string_view kind_name(const Value& value);

}  // namespace lares::json
