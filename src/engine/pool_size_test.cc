#include "engine/pool_size.h"

#include <gtest/gtest.h>

namespace lares::engine {
namespace {

TEST(PoolSize, IsAQuarterOfTheMemoryWithinItsBounds) {
  ModelInfo info;
  info.kv_per_token = Bytes{1000};
  info.context = 100'000;  // Too long to be held whole.
  EXPECT_EQ(choose_pool_tokens(info, Bytes{40'960'000}), 10'240U);
  EXPECT_EQ(choose_pool_tokens(info, Bytes{40'000'000}), 10'240U) << "rounded up to 256";
  EXPECT_EQ(choose_pool_tokens(info, Bytes{std::int64_t{1} << 40U}), 32'768U);
  EXPECT_EQ(choose_pool_tokens(info, Bytes{0}), 256U);
  info.context = 2048;
  EXPECT_EQ(choose_pool_tokens(info, Bytes{0}), 2048U) << "the context it was trained for";
}

}  // namespace
}  // namespace lares::engine
