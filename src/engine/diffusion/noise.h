// Normal noise as a function of (seed, draw, index): the same picture on any machine, in any batch,
// after any pause. Nothing is kept between calls.
//
// Each pair of values is one Box-Muller transform of two uniform numbers, hashed from the three
// counters (core/hash.h) and computed in double, so that compilers and math libraries can differ in
// the last bit of an F32 at most.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lares::diffusion {

// Which use of a seed: the start of a trajectory, or what step i of an ancestral sampler adds.
inline constexpr std::uint64_t kStartDraw = 0;
constexpr std::uint64_t step_draw(std::uint32_t step) {
  return 1 + std::uint64_t{step};
}
inline constexpr std::uint64_t kEncodeDraw = std::uint64_t{1} << 32U;  // A sample of a posterior.

void fill_noise(std::uint64_t seed, std::uint64_t draw, std::span<float> out);

}  // namespace lares::diffusion
