#include "server/picture_cache.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

constexpr Bytes kKiB{1024};
Bytes kib(std::int64_t n) {
  return Bytes{n * kKiB.count};
}

TEST(PictureCache, WhatIsKeptIsFoundByItsKeyAndModel) {
  PictureCache cache(kib(10));
  EXPECT_TRUE(cache.keep({1, "a"}, engine::Handle{7}, kib(1), 20));
  EXPECT_EQ(cache.take({1, "a"}), engine::Handle{7});
  EXPECT_EQ(cache.take({2, "a"}), std::nullopt);
  EXPECT_FALSE(cache.keep({1, "a"}, engine::Handle{8}, kib(1), 20));
  EXPECT_FALSE(cache.keep({1, "large"}, engine::Handle{8}, kib(11), 20));
}

TEST(PictureCache, TheLeastWorthForItsBytesGoesFirst) {
  PictureCache cache(kib(10));
  cache.keep({0, "cheap"}, engine::Handle{1}, kib(4), 1);
  cache.keep({0, "dear"}, engine::Handle{2}, kib(4), 20);
  cache.keep({0, "small"}, engine::Handle{3}, kib(4), 8);
  for (const char* key : {"cheap", "dear", "small"}) cache.let_go({0, key});
  const auto gone = cache.evict();
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].handle, engine::Handle{1});
  EXPECT_EQ(cache.held(), kib(8));
}

TEST(PictureCache, WhatIsInUseStays) {
  PictureCache cache(kib(4));
  cache.keep({0, "a"}, engine::Handle{1}, kib(3), 1);
  cache.keep({0, "b"}, engine::Handle{2}, kib(3), 9);
  EXPECT_TRUE(cache.evict().empty());
  cache.let_go({0, "b"});
  EXPECT_EQ(cache.evict().size(), 1U);
  EXPECT_EQ(cache.take({0, "a"}), engine::Handle{1});
}

TEST(PictureCache, AModelTakesWhatIsItsOwnWithIt) {
  PictureCache cache(kib(10));
  cache.keep({0, "a"}, engine::Handle{1}, kib(3), 1);
  cache.keep({1, "a"}, engine::Handle{2}, kib(3), 1);
  cache.drop(0);
  cache.let_go({0, "a"});  // Of whoever still used it.
  EXPECT_EQ(cache.take({0, "a"}), std::nullopt);
  EXPECT_EQ(cache.held(), kib(3));
}

}  // namespace
}  // namespace lares::server
