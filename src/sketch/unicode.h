// What names are made of: Unicode identifiers (XID) in normalisation form C.
#pragma once

#include <string>
#include <string_view>

namespace lares::sketch {

// The code point at `i` of well-formed UTF-8; `i` goes behind it. REQUIRES: i < text.size().
char32_t next_code_point(std::string_view text, std::size_t& i);

// Appends `c` as UTF-8.
void append_code_point(std::string& out, char32_t c);

bool starts_name(char32_t c);     // XID_Start, and `_`
bool continues_name(char32_t c);  // XID_Continue

// True if `text` (well-formed UTF-8) is in normalisation form C.
bool is_composed(std::string_view text);

// A bound name: "big", "größe"; no hyphen.
bool is_name(std::string_view text);
// A word: a name, or names joined by hyphens, as models are called: "sd-turbo".
bool is_word(std::string_view text);

}  // namespace lares::sketch
