// Latents made of latents, on the host: they are small (16 to 64 KiB for a usual picture).
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/diffusion/config.h"

namespace lares::diffusion {

// [channels][height][width] at another size, bilinear between pixel centres (as PyTorch's
// interpolate with align_corners false); smaller sizes are not filtered.
std::vector<float> resized(std::span<const float> values, std::uint32_t channels,
                           std::uint32_t width, std::uint32_t height, std::uint32_t new_width,
                           std::uint32_t new_height);

// (1 - share) * a + share * b.
std::vector<float> blended(std::span<const float> a, std::span<const float> b, double share);

// On the arc between them (Shoemake 1985), where noise keeps its length: sin((1 - share) w) / sin w
// of a, sin(share w) / sin w of b, for the angle w between. Nearly parallel ones are blended.
std::vector<float> walked(std::span<const float> a, std::span<const float> b, double share);

// Row by row, three bytes a pixel, from the clean latent.
std::vector<std::uint8_t> projected(const LatentRgb& to_rgb, std::span<const float> latent);

// -1..1 planes to bytes in rows, and back.
std::vector<std::uint8_t> bytes_of_pixels(std::span<const float> planes);
std::vector<float> pixels_of_bytes(std::span<const std::uint8_t> rgb);

}  // namespace lares::diffusion
