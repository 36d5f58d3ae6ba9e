#include "engine/diffusion/noise.h"

#include <cmath>
#include <numbers>

#include "core/hash.h"

namespace lares::diffusion {
namespace {

// In (0, 1]: the logarithm exists.
double uniform(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11U) + 1.0) * 0x1p-53;
}

}  // namespace

void fill_noise(std::uint64_t seed, std::uint64_t draw, std::span<float> out) {
  const std::uint64_t stream = hash_combine(hash_combine(seed, draw), 0x6e6f697365ULL);  // "noise"
  for (std::size_t i = 0; i < out.size(); i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(hash_combine(stream, i))));
    const double angle = 2.0 * std::numbers::pi * uniform(hash_combine(stream, i + 1));
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace lares::diffusion
