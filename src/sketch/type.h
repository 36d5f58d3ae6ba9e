// The types of values between stages, as the planner infers them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sketch/catalogue.h"

namespace lares::sketch {

struct Type {
  enum class Kind : std::uint8_t {
    Unknown,  // Something was wrong with it, and was said; fits everywhere.
    Text,
    Cond,
    Latent,
    Pixels,
    Audio,
    Embedding,
    Json,
  };

  Kind kind = Kind::Unknown;
  bool list = false;
  std::uint32_t count = 0;  // Of a list; 0 = not known yet.
  std::string name{};       // Cond: encoder. Latent: space. Embedding: model.
  Size size{};              // Cond: tokens x width. Latent: cells. Pixels. 0x0 = not known yet.
  std::uint32_t width = 0;  // Embedding.
  std::string dtype{};      // Cond, Latent.
  std::optional<Noise> noise{};
  Space space{};        // Latent.
  std::string model{};  // Cond, Latent: whose it is; "" = no model's.
  bool given = false;   // Pixels that come from outside: `latent` may fit them to a shape.

  [[nodiscard]] bool is(Kind k) const { return kind == k || kind == Kind::Unknown; }
  // "Latent sd 64x64 f16 at 8/20"
  [[nodiscard]] std::string text() const;
};
std::string_view kind_text(Type::Kind kind);
Type::Kind kind_of(std::string_view name);  // Unknown if there is no such type.

}  // namespace lares::sketch
