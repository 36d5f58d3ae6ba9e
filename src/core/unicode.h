// What code points are, lower case, and normal form C: as much of Unicode as tokenizers and cache
// keys need. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace lares {

// Malformed bytes become U+FFFD.
std::u32string code_points(std::string_view utf8);
// Surrogates and values past U+10FFFF become U+FFFD.
std::string utf8_of(std::u32string_view text);

bool is_letter(char32_t c);  // General category L.
bool is_number(char32_t c);  // General category N.
bool is_space(char32_t c);   // White_Space, and the four separators U+001C..U+001F.

// Letter by letter; only U+0130 becomes two. A final sigma is not told from another.
std::u32string lower_case(std::u32string_view text);

// Normal form C (UAX #15): an "e" and an acute accent become one "é".
std::u32string nfc(std::u32string_view text);

}  // namespace lares
