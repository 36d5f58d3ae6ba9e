// Text helpers: UTF-8, numbers, durations and sizes as people write them, nearest word.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/types.h"

namespace lares {

// True if `text` is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms, <= U+10FFFF).
bool is_utf8(std::string_view text);

// Length of the longest prefix that does not end inside a code point; what follows may be completed
// by later bytes. Malformed bytes count as complete.
std::size_t utf8_complete_prefix(std::string_view text);

// Each malformed byte replaced by U+FFFD.
std::string utf8_sanitised(std::string_view text);

// `text` with `"`, `\`, control characters escaped, as the inside of a JSON string.
void append_json_escaped(std::string& out, std::string_view text);

// The text as a JSON string, quotes included; malformed bytes become U+FFFD.
std::string json_quoted(std::string_view text);

// The candidate with the least edit distance, if near enough to be a likely slip (at most a third
// of its letters); for "did you mean".
std::optional<std::string_view> nearest_word(std::string_view word,
                                             std::span<const std::string_view> candidates);

// "64", "4 KiB", "1.5GiB", "20MB" -> bytes. Nothing for anything else.
std::optional<std::int64_t> parse_bytes(std::string_view text);

// "250ms", "10 s", "5m", "2h", "7d" -> duration. Nothing for anything else.
std::optional<Duration> parse_duration(std::string_view text);

// "1.5 GiB", "340 KiB", "17 B".
std::string format_bytes(std::int64_t bytes);

// For JSON, metrics and arithmetic on times that people read.
constexpr double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// "1.25 s", "340 ms", "17 us".
std::string format_duration(Duration duration);

// Columns that a terminal shows: code points, not bytes.
std::size_t columns_of(std::string_view text);

// "did you mean `x`?" with a leading blank, or "".
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace lares
