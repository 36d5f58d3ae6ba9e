#include "app/toml_letters.h"

#include <algorithm>

namespace lares::app {
namespace {

// Behind the string that begins at `at`; one that does not end, ends with its line, or with the
// text.
std::size_t skip_string(std::string_view toml, std::size_t at) {
  const char quote = toml[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool lines = toml.substr(at).starts_with(three);
  at += lines ? 3 : 1;
  while (at < toml.size()) {
    if (quote == '"' && toml[at] == '\\') {
      at += 2;
    } else if (!lines && (toml[at] == quote || toml[at] == '\n')) {
      return at + 1;
    } else if (lines && toml.substr(at).starts_with(three)) {
      return at + 3;
    } else {
      ++at;
    }
  }
  return toml.size();
}

}  // namespace

std::optional<std::size_t> stray_letter(std::string_view toml) {
  std::size_t at = toml.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  while (at < toml.size()) {
    const char c = toml[at];
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
    } else if (c == '"' || c == '\'') {
      at = skip_string(toml, at);
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      return at;
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

}  // namespace lares::app
