#include "core/base64.h"

#include <array>
#include <cstdint>

namespace lares {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_of(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const auto byte = i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U;
      group = group << 8U | byte;
    }
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kLetters[(group >> (18 - 6 * k)) & 63U] : '=';
  }
  return out;
}

std::optional<std::string> read_base64(std::string_view text) {
  if (text.starts_with("data:")) {
    const std::size_t comma = text.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    text.remove_prefix(comma + 1);
  }
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kLetters.size(); ++i)
    values[static_cast<unsigned char>(kLetters[i])] = static_cast<std::int8_t>(i);
  std::string out;
  std::uint32_t group = 0, bits = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char letter : text) {
    const std::int8_t value = values[static_cast<unsigned char>(letter)];
    if (value < 0) return std::nullopt;
    group = group << 6U | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>((group >> bits) & 255U);
  }
  return out;
}

}  // namespace lares
