#include "worker/memory_kills.h"

#include <gtest/gtest.h>

namespace lares::worker {
namespace {

TEST(MemoryKills, AreCountedByTheLineOfThatName) {
  EXPECT_EQ(memory_kills_in("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n"), 2U);
  EXPECT_EQ(memory_kills_in("nr_free 5\noom_kill 17\n"), 17U);
  EXPECT_EQ(memory_kills_in("oom_kill 4"), 4U);
  EXPECT_EQ(memory_kills_in("my_oom_kill 4\n"), 0U);
  EXPECT_EQ(memory_kills_in("my_oom_kill 4\noom_kill 1\n"), 1U);
  EXPECT_EQ(memory_kills_in(""), 0U);
  EXPECT_EQ(memory_kills_in("oom_kill many\n"), 0U);
}

TEST(MemoryKills, OfThisMachineNeverBecomeFewer) {
  const std::uint64_t before = count_memory_kills();
  EXPECT_GE(count_memory_kills(), before);
}

}  // namespace
}  // namespace lares::worker
