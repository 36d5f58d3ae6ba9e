#include "sketch/json_reader.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/result.h"
#include "core/text.h"
#include "sketch/unicode.h"

namespace lares::sketch {
namespace {

using Kind = JsonValue::Kind;
using Read = tl::expected<JsonValue, Problem>;

class Reader {
 public:
  Reader(std::string_view text, std::uint32_t depth_max, std::uint32_t values_max)
      : text_(text), depth_max_(depth_max), values_left_(values_max) {}

  Read document() {
    JsonValue value = TRY(read());
    blanks();
    if (at_ < text_.size()) return syntax("text after the end of the JSON");
    return value;
  }

 private:
  Read read();
  Read array(JsonValue value);
  Read object(JsonValue value);
  Read number(JsonValue value);
  Read literal(JsonValue value);
  tl::expected<std::string, Problem> string();
  std::optional<std::uint32_t> hex4();
  bool escape(std::string& out);

  [[nodiscard]] Place here() const { return {line_, column_}; }
  [[nodiscard]] tl::unexpected<Problem> syntax(std::string message) const {
    return tl::unexpected(Problem{Check::L1, here(), std::move(message)});
  }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void take() {
    if (peek() == '\n') {
      ++line_;
      column_ = 0;
    }
    ++column_;
    next_code_point(text_, at_);
  }
  void blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') take();
  }

  std::string_view text_;
  std::uint32_t depth_max_;
  std::uint32_t values_left_;
  std::uint32_t depth_ = 0;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1, column_ = 1;
};

Read Reader::read() {
  blanks();
  JsonValue value;
  value.place = here();
  if (values_left_-- == 0) {
    return tl::unexpected(Problem{Check::L2, here(), "too many JSON values"});
  }
  switch (peek()) {
    case '{':
    case '[': {
      if (++depth_ > depth_max_) {
        return tl::unexpected(
            Problem{Check::L2, here(), fmt::format("JSON nested deeper than {}", depth_max_)});
      }
      Read read = peek() == '{' ? object(std::move(value)) : array(std::move(value));
      --depth_;
      return read;
    }
    case '"':
      value.kind = Kind::String;
      value.text = TRY(string());
      return value;
    default: break;
  }
  if (peek() == '-' || (peek() >= '0' && peek() <= '9')) return number(std::move(value));
  return literal(std::move(value));
}

Read Reader::array(JsonValue value) {
  value.kind = Kind::Array;
  take();
  blanks();
  while (peek() != ']') {
    if (!value.items.empty()) {
      if (peek() != ',') return syntax("expected `,` or `]`");
      take();
    }
    value.items.push_back(TRY(read()));
    blanks();
  }
  take();
  return value;
}

Read Reader::object(JsonValue value) {
  value.kind = Kind::Object;
  take();
  blanks();
  while (peek() != '}') {
    if (!value.items.empty()) {
      if (peek() != ',') return syntax("expected `,` or `}`");
      take();
      blanks();
    }
    if (peek() != '"') return syntax("expected a member's name in quotes");
    const Place place = here();
    std::string key = TRY(string());
    if (value.find(key) != nullptr) {
      return tl::unexpected(Problem{Check::L1, place, fmt::format("`{}` is there twice", key)});
    }
    if (value.keys.size() >= 16) return syntax("more members than any object here has");
    blanks();
    if (peek() != ':') return syntax("expected `:`");
    take();
    value.keys.push_back(std::move(key));
    value.items.push_back(TRY(read()));
    blanks();
  }
  take();
  return value;
}

Read Reader::number(JsonValue value) {
  const std::size_t from = at_;
  const auto digits = [this] {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') take();
    return at_ > start;
  };
  value.kind = Kind::Number;
  if (peek() == '-') take();
  const bool zero = peek() == '0';
  const std::size_t first = at_;
  bool good = digits() && !(zero && at_ > first + 1);
  if (good && peek() == '.') {
    take();
    good = digits();
  }
  if (good && (peek() == 'e' || peek() == 'E')) {
    take();
    if (peek() == '+' || peek() == '-') take();
    good = digits();
  }
  if (!good) return syntax("this is no number");
  value.text = std::string(text_.substr(from, at_ - from));
  return value;
}

Read Reader::literal(JsonValue value) {
  static constexpr std::pair<std::string_view, Kind> kLiterals[] = {
      {"null", Kind::Null}, {"false", Kind::False}, {"true", Kind::True}};
  for (const auto& [word, kind] : kLiterals) {
    if (!text_.substr(at_).starts_with(word)) continue;
    value.kind = kind;
    for (std::size_t i = 0; i < word.size(); ++i) take();
    return value;
  }
  return syntax(at_ >= text_.size() ? "the JSON ends too early" : "expected a JSON value");
}

std::optional<std::uint32_t> Reader::hex4() {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = peek();
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<std::uint32_t>(digit);
    take();
  }
  return value;
}

// What follows a backslash; false if it makes no sense.
bool Reader::escape(std::string& out) {
  static constexpr std::string_view kNames = "\"\\/bfnrt";
  static constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  const char c = peek();
  if (const std::size_t i = kNames.find(c); c != '\0' && i != std::string_view::npos) {
    take();
    out += kMeant[i];
    return true;
  }
  if (c != 'u') return false;
  take();
  auto code = hex4();
  if (!code) return false;
  if (*code >= 0xd800 && *code < 0xdc00) {  // Half of a pair.
    if (peek() != '\\') return false;
    take();
    if (peek() != 'u') return false;
    take();
    const auto low = hex4();
    if (!low || *low < 0xdc00 || *low > 0xdfff) return false;
    code = 0x10000 + ((*code - 0xd800) << 10U) + (*low - 0xdc00);
  } else if (*code >= 0xdc00 && *code <= 0xdfff) {
    return false;
  }
  append_code_point(out, static_cast<char32_t>(*code));
  return true;
}

tl::expected<std::string, Problem> Reader::string() {
  const Place open = here();
  take();
  std::string out;
  while (peek() != '"') {
    if (at_ >= text_.size()) {
      return tl::unexpected(Problem{Check::L1, open, "this string has no closing `\"`"});
    }
    if (static_cast<unsigned char>(peek()) < 0x20) return syntax("a control character in a string");
    if (peek() == '\\') {
      take();
      if (!escape(out)) return syntax("no such escape in a JSON string");
      continue;
    }
    const std::size_t from = at_;
    take();
    out += text_.substr(from, at_ - from);
  }
  take();
  return out;
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto found = std::ranges::find(keys, key);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

std::string_view kind_name(const JsonValue& value) {
  switch (value.kind) {
    case Kind::Null: return "null";
    case Kind::False:
    case Kind::True: return "a boolean";
    case Kind::Number: return "a number";
    case Kind::String: return "a string";
    case Kind::Array: return "an array";
    case Kind::Object: return "an object";
  }
  return "";
}

tl::expected<JsonValue, Problem> read_json_value(std::string_view text, std::uint32_t depth_max,
                                                 std::uint32_t values_max) {
  if (!is_utf8(text)) return tl::unexpected(Problem{Check::L1, {1, 1}, "the JSON is not UTF-8"});
  return Reader(text, depth_max, values_max).document();
}

}  // namespace lares::sketch
