#include "engine/diffusion/latent_math.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/diffusion/noise.h"
#include "engine/diffusion/test_folder.h"

namespace lares::diffusion {
namespace {

using Values = std::vector<float>;

TEST(LatentMath, ResizesBetweenPixelCentres) {
  const Values row = {0, 1, 2, 3};
  EXPECT_EQ(resized(row, 1, 4, 1, 4, 1), row);
  // PyTorch: interpolate([0, 1, 2, 3], size 8) = 0, .25, .75, 1.25, ...
  EXPECT_EQ(resized(row, 1, 4, 1, 8, 1), (Values{0, 0.25F, 0.75F, 1.25F, 1.75F, 2.25F, 2.75F, 3}));
  EXPECT_EQ(resized(row, 1, 4, 1, 2, 1), (Values{0.5F, 2.5F}));
  EXPECT_EQ(resized(Values{0, 1, 2, 3}, 2, 1, 2, 1, 1), (Values{0.5F, 2.5F}));  // Two channels.
  EXPECT_EQ(resized(Values{1, 2, 3, 4}, 1, 2, 2, 1, 1), Values{2.5F});
}

TEST(LatentMath, BlendsAndWalks) {
  EXPECT_EQ(blended(Values{0, 4}, Values{8, 0}, 0.25), (Values{2, 3}));
  const Values east = {1, 0}, north = {0, 1};
  const Values half = walked(east, north, 0.5);
  EXPECT_NEAR(half[0], std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(half[1], std::sqrt(0.5), 1e-6);
  const Values third = walked(east, north, 1.0 / 3);
  EXPECT_NEAR(third[0], std::cos(M_PI / 6), 1e-6);
  EXPECT_EQ(walked(east, east, 0.3), east);
  EXPECT_EQ(walked(Values{0, 0}, north, 0.5), (Values{0, 0.5F}));

  Values a(4096), b(4096);  // Noise on the arc is noise; on the line it has lost variance.
  fill_noise(1, 0, a);
  fill_noise(2, 0, b);
  const auto power = [](const Values& v) {
    double sum = 0;
    for (const float x : v) sum += double{x} * x;
    return sum / static_cast<double>(v.size());
  };
  EXPECT_NEAR(power(walked(a, b, 0.5)), 1, 0.05);
  EXPECT_NEAR(power(blended(a, b, 0.5)), 0.5, 0.05);
}

TEST(LatentMath, TurnsPixelsIntoBytesAndBack) {
  const Values planes = {-1, 1, 0, 2, -3, 0.5F};  // Two pixels: red, green, blue planes.
  const std::vector<std::uint8_t> bytes = bytes_of_pixels(planes);
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0, 128, 0, 255, 255, 191}));
  const Values back = pixels_of_bytes(bytes);
  EXPECT_NEAR(back[0], -1, 1e-6);
  EXPECT_NEAR(back[1], 1, 1e-6);
  EXPECT_NEAR(back[5], 0.5, 0.01);
}

TEST(LatentMath, ProjectsToColours) {
  const LatentRgb to_rgb{.weight = {{1, 0, 0}, {0, 0.5F, 0}}, .bias = {0, 0, 1}};
  EXPECT_EQ(projected(to_rgb, Values{1, 0, 0, 1}),
            (std::vector<std::uint8_t>{255, 0, 255, 0, 128, 255}));
}

}  // namespace
}  // namespace lares::diffusion
