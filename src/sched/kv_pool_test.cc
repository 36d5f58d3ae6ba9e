#include "sched/kv_pool.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sched/event.h"

namespace lares::sched {
namespace {

TEST(KvPool, SharesAFrontAndGivesItBackWithItsLastHolder) {
  KvPool pool(10 * kBlockTokens, 4);
  const std::vector<std::uint64_t> keys{1, 2, 3};
  const SeqId a = pool.open({}, 0);
  ASSERT_TRUE(pool.grow(a, 4));
  pool.set_keys(a, keys);
  const auto match = pool.match(std::vector<std::uint64_t>{1, 2, 9});
  EXPECT_EQ(match.blocks, 2U);
  const SeqId b = pool.open(match.seq, match.blocks);
  EXPECT_EQ(pool.blocks_free(), 6U);
  pool.drop(a);
  EXPECT_EQ(pool.blocks_free(), 8U);
  pool.drop(b);
  EXPECT_EQ(pool.blocks_free(), 10U);
  pool.check();
}

TEST(KvPool, GrowTakesAllOrNothing) {
  KvPool pool(3 * kBlockTokens, 2);
  const SeqId a = pool.open({}, 0);
  EXPECT_FALSE(pool.grow(a, 4));
  EXPECT_EQ(pool.blocks_free(), 3U);
  EXPECT_TRUE(pool.grow(a, 3));
}

TEST(KvPool, CachedBlocksAreReclaimableUnlessALiveSequenceSharesThem) {
  KvPool pool(8 * kBlockTokens, 3);
  const SeqId a = pool.open({}, 0);
  ASSERT_TRUE(pool.grow(a, 3));
  pool.cache(a, std::vector<std::uint64_t>{1, 2});
  EXPECT_EQ(pool.blocks_reclaimable(),
            3U);  // The tail without a key is kept, as the engine keeps it.
  const SeqId b = pool.open(a, 2);
  EXPECT_EQ(pool.blocks_reclaimable(), 1U);
  pool.drop(b);
  EXPECT_EQ(pool.blocks_reclaimable(), 3U);
  EXPECT_EQ(pool.least_recent_cached(std::nullopt), a);
  EXPECT_EQ(pool.least_recent_cached(a), std::nullopt);
}

// Random operations: the ledger adds up after each, and the best match is what a plain search
// finds.
RC_GTEST_PROP(KvPoolProperty, TheLedgerAddsUp, (const std::vector<std::uint16_t>& steps)) {
  KvPool pool(24 * kBlockTokens, 6);
  std::vector<SeqId> live;
  std::vector<SeqId> cached;
  for (const std::uint16_t random : steps) {
    const std::size_t pick = random / 8U;
    std::vector<std::uint64_t> keys;  // A family of key chains with common fronts.
    for (std::uint32_t i = 0; i < 1 + pick % 5; ++i)
      keys.push_back(i < pick / 5 % 4 ? i : i + 100 * (pick % 3));
    switch (random % 5) {
      case 0:
        if (pool.has_free_sequence()) {
          const auto match = pool.match(keys);
          live.push_back(pool.open(match.seq, match.blocks));
        }
        break;
      case 1:
        if (!live.empty())
          pool.grow(live[pick % live.size()], 1 + static_cast<std::uint32_t>(pick % 7));
        break;
      case 2:
        if (!live.empty()) {
          const SeqId seq = live[pick % live.size()];
          keys.resize(std::min<std::size_t>(keys.size(), pool.held(seq)));
          std::erase(live, seq);
          pool.cache(seq, keys);
          cached.push_back(seq);
        }
        break;
      case 3:
        if (!live.empty()) {
          const SeqId seq = live[pick % live.size()];
          std::erase(live, seq);
          pool.drop(seq);
        }
        break;
      default:
        if (const auto oldest = pool.least_recent_cached(std::nullopt)) {
          std::erase(cached, *oldest);
          pool.drop(*oldest);
        }
    }
    pool.check();
  }
  for (const SeqId seq : live) pool.drop(seq);
  for (const SeqId seq : cached) pool.drop(seq);
  pool.check();
  RC_ASSERT(pool.blocks_free() == 24U);
}

}  // namespace
}  // namespace lares::sched
