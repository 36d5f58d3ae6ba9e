// Base64 (RFC 4648, section 4) both ways. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lares {

std::string base64_of(std::string_view bytes);
// Nothing if it is none. A "data:...;base64," before it is skipped; padding may be left out.
std::optional<std::string> read_base64(std::string_view text);

}  // namespace lares
