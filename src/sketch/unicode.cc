#include "sketch/unicode.h"

#include <algorithm>
#include <span>

#include "core/text.h"
#include "core/unicode.h"
#include "sketch/unicode_tables.h"

namespace lares::sketch {
namespace {

bool holds(std::span<const CodeRange> ranges, char32_t c) {
  const auto after = std::ranges::upper_bound(ranges, c, {}, &CodeRange::first);
  return after != ranges.begin() && c <= std::prev(after)->last;
}

// `text` is one name, or several with `joint` between them.
bool is_joined(std::string_view text, char32_t joint) {
  if (text.empty() || !is_utf8(text)) return false;
  bool start = true;
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (!start && joint != 0 && c == joint) {
      // What follows a joint goes on with the name: "starter-3b".
      if (i >= text.size() || static_cast<char32_t>(text[i]) == joint) return false;
      continue;
    }
    if (start ? !starts_name(c) : !continues_name(c)) return false;
    start = false;
  }
  return is_composed(text);
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(i++);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  char32_t c = first & (0x3fU >> static_cast<unsigned>(more));
  for (int k = 0; k < more && i < text.size(); ++k) c = (c << 6U) | (byte(i++) & 0x3fU);
  return c;
}

void append_code_point(std::string& out, char32_t c) {
  const auto more = [&](unsigned shift) {
    out += static_cast<char>(0x80U | ((c >> shift) & 0x3fU));
  };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0U | (c >> 6U));
    more(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0U | (c >> 12U));
    more(6);
    more(0);
  } else {
    out += static_cast<char>(0xf0U | (c >> 18U));
    more(12);
    more(6);
    more(0);
  }
}

bool starts_name(char32_t c) {
  return c == U'_' || holds(std::span(kNameStart, kNameStartCount), c);
}

bool continues_name(char32_t c) {
  return starts_name(c) || holds(std::span(kNameContinue, kNameContinueCount), c);
}

bool is_composed(std::string_view text) {
  const std::u32string points = code_points(text);
  return nfc(points) == points;
}

bool is_name(std::string_view text) {
  return is_joined(text, 0);
}
bool is_word(std::string_view text) {
  return is_joined(text, U'-');
}

}  // namespace lares::sketch
