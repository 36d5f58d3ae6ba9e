#include "server/png.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

TEST(Png, AndBackAgain) {
  engine::Picture picture{.size = {5, 3}, .rgb = {}};
  for (int i = 0; i < 45; ++i) picture.rgb.push_back(static_cast<std::uint8_t>(i * 5));
  const auto back = read_png(png_of(picture));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->size, picture.size);
  EXPECT_EQ(back->rgb, picture.rgb);
}

TEST(Png, WhatIsNoneIsRefused) {
  EXPECT_EQ(read_png("").error().code, Code::Invalid);
  EXPECT_EQ(read_png("GIF89a").error().code, Code::Invalid);
  std::string bytes = png_of({.size = {4, 4}, .rgb = std::vector<std::uint8_t>(48, 9)});
  EXPECT_EQ(read_png(bytes.substr(0, bytes.size() / 2)).error().code, Code::Invalid);
}

// Its head says 40,000 x 40,000, and that is all that is looked at.
TEST(Png, AHugeOneIsRefusedBeforeItIsUnpacked) {
  const unsigned char head[] = {0x89, 'P',  'N', 'G', '\r', '\n', 0x1a, '\n', 0,    0,    0,
                                13,   'I',  'H', 'D', 'R',  0,    0,    0x9c, 0x40, 0,    0,
                                0x9c, 0x40, 8,   2,   0,    0,    0,    0xde, 0x6e, 0x99, 0x52,
                                0,    0,    0,   10,  'I',  'D',  'A',  'T'};
  const auto read = read_png({reinterpret_cast<const char*>(head), sizeof head});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::TooLarge) << read.error().message;
}

}  // namespace
}  // namespace lares::server
