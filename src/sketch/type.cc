#include "sketch/type.h"

#include <array>

#include <fmt/format.h>

namespace lares::sketch {
namespace {

constexpr std::array<std::string_view, 8> kNames{"?",      "Text",  "Cond",      "Latent",
                                                 "Pixels", "Audio", "Embedding", "Json"};

}  // namespace

std::string_view kind_text(Type::Kind kind) {
  return kNames.at(static_cast<std::size_t>(kind));
}

Type::Kind kind_of(std::string_view name) {
  for (std::size_t i = 1; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Type::Kind>(i);
  }
  return Type::Kind::Unknown;
}

std::string Type::text() const {
  std::string out(kind_text(kind));
  if (!name.empty()) out += ' ' + name;
  if (size.width != 0) out += ' ' + size.text();
  if (width != 0) out += fmt::format(" {}", width);
  if (!dtype.empty()) out += ' ' + dtype;
  if (noise) out += fmt::format(" at {}/{}", noise->done, noise->steps);
  return list ? '[' + out + ']' : out;
}

}  // namespace lares::sketch
