#include "engine/diffusion/latent_math.h"

#include <algorithm>
#include <cmath>

#include "core/assert.h"

namespace lares::diffusion {
namespace {

constexpr std::size_t kColours = 3;

// Where a new pixel's centre lies among the old ones: two neighbours, and the second one's share.
struct Place {
  std::size_t low, high;
  float share;
};

std::vector<Place> places(std::uint32_t from, std::uint32_t to) {
  std::vector<Place> out;
  for (std::uint32_t i = 0; i < to; ++i) {
    const double at = std::max(0.0, (i + 0.5) * from / to - 0.5);
    const auto low = std::min(static_cast<std::size_t>(at), std::size_t{from} - 1);
    out.push_back({low, std::min(low + 1, std::size_t{from} - 1),
                   static_cast<float>(at - static_cast<double>(low))});
  }
  return out;
}

std::uint8_t byte_of(float value) {
  return static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0F, 1.0F) * 255.0F));
}

}  // namespace

std::vector<float> resized(std::span<const float> values, std::uint32_t channels,
                           std::uint32_t width, std::uint32_t height, std::uint32_t new_width,
                           std::uint32_t new_height) {
  const std::size_t area = std::size_t{width} * height;
  LARES_ASSERT(values.size() == channels * area, "{} values for {} x {} x {}", values.size(),
               channels, height, width);
  const std::vector<Place> columns = places(width, new_width);
  const std::vector<Place> rows = places(height, new_height);
  std::vector<float> out;
  out.reserve(std::size_t{channels} * new_width * new_height);
  for (std::size_t c = 0; c < channels; ++c) {
    for (const Place& row : rows) {
      const float* low = values.data() + c * area + row.low * width;
      const float* high = values.data() + c * area + row.high * width;
      for (const Place& column : columns) {
        const float above = low[column.low] + column.share * (low[column.high] - low[column.low]);
        const float below =
            high[column.low] + column.share * (high[column.high] - high[column.low]);
        out.push_back(above + row.share * (below - above));
      }
    }
  }
  return out;
}

std::vector<float> blended(std::span<const float> a, std::span<const float> b, double share) {
  LARES_ASSERT(a.size() == b.size(), "{} and {} values", a.size(), b.size());
  const auto of_a = static_cast<float>(1 - share), of_b = static_cast<float>(share);
  std::vector<float> out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = of_a * a[i] + of_b * b[i];
  return out;
}

std::vector<float> walked(std::span<const float> a, std::span<const float> b, double share) {
  LARES_ASSERT(a.size() == b.size(), "{} and {} values", a.size(), b.size());
  double dot = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  const double cosine = aa > 0 && bb > 0 ? std::clamp(dot / std::sqrt(aa * bb), -1.0, 1.0) : 1;
  constexpr double kParallel = 0.9995;
  if (std::abs(cosine) > kParallel) return blended(a, b, share);
  const double angle = std::acos(cosine);
  const auto of_a = static_cast<float>(std::sin((1 - share) * angle) / std::sin(angle));
  const auto of_b = static_cast<float>(std::sin(share * angle) / std::sin(angle));
  std::vector<float> out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = of_a * a[i] + of_b * b[i];
  return out;
}

std::vector<std::uint8_t> projected(const LatentRgb& to_rgb, std::span<const float> latent) {
  const std::size_t channels = to_rgb.weight.size();
  const std::size_t area = latent.size() / channels;
  std::vector<std::uint8_t> out;
  out.reserve(area * kColours);
  for (std::size_t i = 0; i < area; ++i) {
    for (std::size_t k = 0; k < kColours; ++k) {
      float value = to_rgb.bias[k];
      for (std::size_t c = 0; c < channels; ++c) {
        value += to_rgb.weight[c][k] * latent[c * area + i];
      }
      out.push_back(byte_of(value));
    }
  }
  return out;
}

std::vector<std::uint8_t> bytes_of_pixels(std::span<const float> planes) {
  const std::size_t area = planes.size() / kColours;
  std::vector<std::uint8_t> out(planes.size());
  for (std::size_t i = 0; i < area; ++i) {
    for (std::size_t k = 0; k < kColours; ++k) {
      out[kColours * i + k] = byte_of((planes[k * area + i] + 1) / 2);
    }
  }
  return out;
}

std::vector<float> pixels_of_bytes(std::span<const std::uint8_t> rgb) {
  const std::size_t area = rgb.size() / kColours;
  std::vector<float> out(rgb.size());
  for (std::size_t i = 0; i < area; ++i) {
    for (std::size_t k = 0; k < kColours; ++k) {
      out[k * area + i] = static_cast<float>(rgb[kColours * i + k]) / 127.5F - 1;
    }
  }
  return out;
}

}  // namespace lares::diffusion
