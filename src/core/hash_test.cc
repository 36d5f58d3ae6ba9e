#include "core/hash.h"

#include <set>

#include <gtest/gtest.h>

namespace lares {
namespace {

// Values are part of what must not change between releases: texts depend on them.
TEST(Hash, Mix64IsSplitMix64) {
  // First outputs of the reference implementation (prng.di.unimi.it/splitmix64.c) from state 0.
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(mix64(0x9e3779b97f4a7c15ULL), 0x6e789e6aa1b965f4ULL);
}

TEST(Hash, TextIsFnvFinished) {
  EXPECT_EQ(hash_text(""), mix64(0xcbf29ce484222325ULL));
  EXPECT_EQ(hash_text("a"), mix64(0xaf63dc4c8601ec8cULL)) << "FNV-1a of one letter, as published";
  EXPECT_NE(hash_text("ab"), hash_text("ba"));
  EXPECT_NE(hash_text(std::string_view("\0", 1)), hash_text(""));
}

TEST(Hash, CombineDependsOnOrder) {
  EXPECT_NE(hash_combine(1, 2), hash_combine(2, 1));
}

// Each input bit flips about half of the output bits.
TEST(Hash, EveryInputBitMatters) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    int flipped = 0;
    for (std::uint64_t x = 0; x < 200; ++x) {
      flipped += __builtin_popcountll(mix64(x) ^ mix64(x ^ (std::uint64_t{1} << bit)));
    }
    EXPECT_NEAR(flipped / 200.0, 32.0, 2.0) << bit;
  }
}

TEST(Hash, SmallNumbersDoNotCollide) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 100; ++a) {
    for (std::uint64_t b = 0; b < 100; ++b) seen.insert(hash_combine(a, b));
  }
  EXPECT_EQ(seen.size(), 10000U);
}

}  // namespace
}  // namespace lares
