// Letters beyond ASCII where TOML has none: outside of strings and comments.
//
// toml++ 3.3 asks there whether they are blanks, in a way that is undefined for most of them; so
// they are refused before it reads the text. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lares::app {

// Where the first such byte is. A byte order mark at the beginning is none.
std::optional<std::size_t> stray_letter(std::string_view toml);

}  // namespace lares::app
