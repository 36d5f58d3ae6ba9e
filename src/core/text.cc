#include "core/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace lares {
namespace {

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes a code point takes by its first byte; 0 if no code point starts so.
std::size_t utf8_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

// Range of the second byte that excludes overlong forms, surrogates and values beyond U+10FFFF.
bool utf8_second_ok(unsigned char first, unsigned char second) {
  if (first == 0xe0) return second >= 0xa0 && second <= 0xbf;
  if (first == 0xed) return second >= 0x80 && second <= 0x9f;
  if (first == 0xf0) return second >= 0x90 && second <= 0xbf;
  if (first == 0xf4) return second >= 0x80 && second <= 0x8f;
  return second >= 0x80 && second <= 0xbf;
}

// Length of the well-formed code point at `i`: 0 if malformed; `cut` is set if the text ends in it.
std::size_t utf8_step(std::string_view text, std::size_t i, bool& cut) {
  cut = false;
  const unsigned char first = byte_at(text, i);
  const std::size_t length = utf8_length(first);
  for (std::size_t k = 1; k < length; ++k) {
    if (i + k >= text.size()) {
      cut = true;
      return 0;
    }
    const unsigned char next = byte_at(text, i + k);
    const bool ok = k == 1 ? utf8_second_ok(first, next) : (next & 0xc0U) == 0x80U;
    if (!ok) return 0;
  }
  return length;
}

// Letters inserted, left out, replaced, or exchanged with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // Two rows up.
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

// A number and the unit after it, blanks between and around allowed.
std::optional<std::pair<double, std::string_view>> parse_quantity(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  while (!unit.empty() && unit.back() == ' ') unit.remove_suffix(1);
  return std::pair(number, unit);
}

struct Unit {
  std::string_view name;
  double factor;
};

std::optional<std::int64_t> scale(std::string_view text, std::span<const Unit> units) {
  const auto quantity = parse_quantity(text);
  if (!quantity) return std::nullopt;
  for (const Unit& unit : units) {
    if (unit.name != quantity->second) continue;
    const double value = quantity->first * unit.factor;
    if (value > 9.0e18) return std::nullopt;
    return static_cast<std::int64_t>(std::llround(value));
  }
  return std::nullopt;
}

}  // namespace

bool is_utf8(std::string_view text) {
  bool cut = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_step(text, i, cut);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::size_t utf8_complete_prefix(std::string_view text) {
  const std::size_t from = text.size() > 3 ? text.size() - 3 : 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (utf8_length(byte_at(text, i)) < 2) continue;
    bool cut = false;
    utf8_step(text, i, cut);
    if (cut) return i;
  }
  return text.size();
}

std::string utf8_sanitised(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool cut = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_step(text, i, cut);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
    } else {
      out.append(text.substr(i, length));
      i += length;
    }
  }
  return out;
}

void append_json_escaped(std::string& out, std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : text) {
    const auto b = static_cast<unsigned char>(c);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (b < 0x20) {
          out += "\\u00";
          out += kHex[b >> 4U];
          out += kHex[b & 15U];
        } else {
          out += c;
        }
    }
  }
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(out, is_utf8(text) ? text : utf8_sanitised(text));
  return out + '"';
}

std::optional<std::string_view> nearest_word(std::string_view word,
                                             std::span<const std::string_view> candidates) {
  std::optional<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

std::string suggestion(std::string_view word, std::span<const std::string_view> candidates) {
  const auto near = nearest_word(word, candidates);
  return near ? fmt::format(" Did you mean `{}`?", *near) : std::string();
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  static constexpr std::array<Unit, 8> kUnits{{{"", 1},
                                               {"B", 1},
                                               {"KB", 1e3},
                                               {"MB", 1e6},
                                               {"GB", 1e9},
                                               {"KiB", 1024.0},
                                               {"MiB", 1048576.0},
                                               {"GiB", 1073741824.0}}};
  return scale(text, kUnits);
}

std::optional<Duration> parse_duration(std::string_view text) {
  static constexpr std::array<Unit, 6> kUnits{
      {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}}};
  const auto value = scale(text, kUnits);
  return value ? std::optional(Duration(*value)) : std::nullopt;
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string format_duration(Duration duration) {
  const auto ns = static_cast<double>(duration.count());
  if (ns >= 1e9) return fmt::format("{:.2f} s", ns / 1e9);
  if (ns >= 1e6) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.0f} us", ns / 1e3);
}

}  // namespace lares
