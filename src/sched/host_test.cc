// What leaves the pool, and comes back.
#include <map>

#include <gtest/gtest.h>

#include "sched/test_device.h"

namespace lares::sched {
namespace {

constexpr Bytes kPlenty{100'000'000};

ModelLimits limits(std::uint32_t pool) {
  return {.pool_tokens = pool,
          .context = 2048,
          .sequences = 16,
          .batch_tokens = 512,
          .kv_per_token = Bytes{1024}};
}

// Two jobs that both fit at first, and later do not.
void submit_two(TestDevice& device) {
  device.submit(1, 100, 150, 0, 1);
  device.submit(2, 100, 150, 0, 2);
  device.run_until_idle();
  EXPECT_EQ(device.finished, (std::vector<std::uint64_t>{1, 2}));
}

const Options kTight{.policy = "sarathi", .output_expected = 0, .cache_tokens = 0};

TEST(Host, WhatStepsBackIsSavedAndGoesOnWhereItWas) {
  TestDevice device(kTight, limits(320));
  device.give_host(kPlenty);
  submit_two(device);
  EXPECT_GT(device.put_back, 0U);
  EXPECT_EQ(device.computed, 2U * 249U);  // Nothing twice.
  EXPECT_EQ(device.states(), 0U);
}

TEST(Host, WithoutRoomThereItIsComputedAgain) {
  for (const Bytes budget : {Bytes{0}, Bytes{1000}}) {
    TestDevice device(kTight, limits(320));
    device.give_host(budget);
    submit_two(device);
    EXPECT_EQ(device.saved, 0U);
    EXPECT_GT(device.computed, 2U * 249U);
  }
}

TEST(Host, WhereComputingIsCheaperThanCopyingNothingIsSaved) {
  ModelLimits large = limits(320);
  large.kv_per_token = Bytes{std::int64_t{1} << 30U};
  TestDevice device(kTight, large);
  device.give_host(Bytes{std::int64_t{1} << 50U});
  submit_two(device);
  EXPECT_EQ(device.saved, 0U);
}

TEST(Host, ASaveThatFailsCostsTheTokensAlone) {
  TestDevice device(kTight, limits(320));
  device.give_host(kPlenty);
  device.saves_fail = true;
  submit_two(device);
  EXPECT_GT(device.saved, 0U);
  EXPECT_EQ(device.put_back, 0U);
  EXPECT_GT(device.computed, 2U * 249U);
}

TEST(Host, AStateThatCannotBePutBackCostsTheTokensAlone) {
  TestDevice device(kTight, limits(320));
  device.give_host(kPlenty);
  device.refuse_restores = 1;
  submit_two(device);
  EXPECT_GT(device.computed, 2U * 249U);
  EXPECT_EQ(device.states(), 0U);
}

TEST(Host, OnlyWhatIsNotSharedIsSaved) {
  // What is shared stays in the pool's cache when the first of them ends.
  TestDevice device({.policy = "sarathi", .output_expected = 0, .cache_tokens = 512}, limits(528));
  device.give_host(kPlenty);
  device.submit(1, 320, 100, 0, 7);
  device.submit(2, 320, 100, 0, 7);  // The same words: 304 of them are shared.
  Bytes most{};
  for (int i = 0; i < 1000; ++i) {
    device.decide();
    most = std::max(most, device.held());
    if (!device.answer()) break;
  }
  EXPECT_EQ(device.finished.size(), 2U);
  EXPECT_GT(device.put_back, 0U);
  EXPECT_LE(most, Bytes{(320 - 304 + 100) * 1024});
  EXPECT_EQ(device.computed, 320U + 16U + 2U * 99U);
}

TEST(Host, AConversationThatLeftThePoolIsPutBack) {
  TestDevice device({.policy = "sarathi", .cache_tokens = 1024}, limits(1024));
  device.give_host(kPlenty);
  device.submit(1, 480, 2, 0, 1);
  device.run_until_idle();
  device.submit(2, 900, 2, 0, 2);  // Takes its place.
  device.run_until_idle();
  const std::uint64_t before = device.computed;
  device.submit(3, 512, 2, 0, 1);  // The first one goes on.
  device.run_until_idle();
  EXPECT_EQ(device.put_back, 1U);
  EXPECT_EQ(device.computed - before, 512U - 480U + 1U);
  // It stays on the host: no second copy is made when it leaves the pool again.
  const std::uint32_t saved = device.saved;
  device.submit(4, 900, 2, 0, 4);
  device.run_until_idle();
  EXPECT_LE(device.saved, saved + 2U);
}

TEST(Host, NobodyIsGivenAnothersStates) {
  TestDevice device({.policy = "sarathi", .cache_tokens = 1024}, limits(1024));
  device.give_host(kPlenty);
  device.submit(1, 480, 2, 1, 1);
  device.run_until_idle();
  device.submit(2, 900, 2, 1, 2);
  device.run_until_idle();
  ASSERT_GT(device.saved, 0U);
  device.submit(3, 512, 2, 2, 1);  // Another member, the same words.
  device.run_until_idle();
  EXPECT_EQ(device.put_back, 0U);
}

TEST(Host, MemoryThatCannotBeCutIsSavedWhole) {
  ModelLimits whole = limits(320);
  whole.cut_anywhere = false;
  TestDevice device(kTight, whole);
  device.give_host(kPlenty);
  submit_two(device);
  EXPECT_GT(device.put_back, 0U);
  EXPECT_EQ(device.computed, 2U * 249U);
}

ModelLimits uncut(std::uint32_t pool) {
  ModelLimits whole = limits(pool);
  whole.cut_anywhere = false;
  return whole;
}

TEST(Host, WhereMemoryCannotBeCutAConversationGoesOnFromItsLastTurn) {
  for (const std::string policy : {"sarathi", "lares", "orca"}) {
    TestDevice device({.policy = policy}, uncut(2048));
    device.give_host(kPlenty);
    device.submit(1, 480, 20, 0, 1);
    device.run_until_idle();
    EXPECT_EQ(device.computed, 499U);
    device.submit(2, 600, 20, 0, 1);  // The same words, and more.
    device.run_until_idle();
    EXPECT_EQ(device.put_back, 1U) << policy;
    EXPECT_EQ(device.computed, 499U + 619U - 464U) << policy;  // The last whole block of 480 - 1.
    device.submit(3, 600, 20, 1, 1);                           // Another member's are their own.
    device.run_until_idle();
    EXPECT_EQ(device.put_back, 1U) << policy;
  }
}

TEST(Host, WhereMemoryCannotBeCutTheFirstWordsOfManyAreReadTwiceAndThenNoMore) {
  TestDevice device({.policy = "sarathi"}, uncut(2048));
  device.give_host(kPlenty);
  const auto computed_by = [&](std::uint64_t id) {
    const std::uint64_t before = device.computed;
    device.submit(id, 400, 2, 0, id, 0, 0, 200);
    device.run_until_idle();
    return device.computed - before;
  };
  EXPECT_EQ(computed_by(1), 401U);
  EXPECT_EQ(computed_by(2), 401U);  // Sees where it parts from the first: at 192.
  EXPECT_EQ(computed_by(3), 401U - 192U);
  EXPECT_EQ(computed_by(4), 401U - 192U);
}

TEST(Host, ShortPromptsAreNotKept) {
  TestDevice device({.policy = "sarathi"}, uncut(2048));
  device.give_host(kPlenty);
  device.submit(1, 60, 2, 0, 1);
  device.run_until_idle();
  EXPECT_EQ(device.saved, 0U);
}

TEST(Host, LessMemoryGivesUpWhatWasUsedLeastLately) {
  TestDevice device({.policy = "sarathi", .cache_tokens = 1024}, limits(1024));
  device.give_host(kPlenty);
  for (std::uint64_t id = 1; id <= 6; ++id) {
    device.submit(id, 480, 2, 0, id);
    device.run_until_idle();
  }
  ASSERT_GT(device.states(), 2U);
  device.give_host(Bytes{500 * 1024});
  device.decide();
  EXPECT_EQ(device.states(), 1U);
  device.give_host(Bytes{0});
  device.decide();
  EXPECT_EQ(device.states(), 0U);
}

TEST(Host, ALostDeviceTakesItsStatesAlong) {
  TestDevice device({.policy = "sarathi", .cache_tokens = 1024}, limits(1024));
  device.give_host(kPlenty);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    device.submit(id, 480, 2, 0, id);
    device.run_until_idle();
  }
  ASSERT_GT(device.states(), 0U);
  device.lose_device();
  device.submit(5, 480, 2, 0, 1);
  device.run_until_idle();
  EXPECT_EQ(device.put_back, 0U);
  EXPECT_EQ(device.finished.size(), 5U);
}

TEST(MemberPool, OneMembersJobsLeaveRoomForTheOthers) {
  for (const std::uint32_t share : {1000U, 500U}) {
    TestDevice device(
        {.policy = "lares", .step_tokens = 64, .output_expected = 0, .member_pool = share},
        limits(1024));
    for (std::uint64_t id = 1; id <= 6; ++id) device.submit(id, 200, 60, 1, id);
    device.submit(7, 300, 20, 2, 7);
    device.submit(8, 300, 20, 2, 8);
    device.decide();
    std::map<std::uint64_t, std::uint32_t> most;
    for (int i = 0; i < 500 && device.answer(); ++i) {
      std::map<std::uint64_t, std::uint32_t> held;
      for (const auto& [id, job] : device.jobs) {
        if (job.opened > 0) held[job.member] += static_cast<std::uint32_t>(job.tokens.size());
      }
      if (device.jobs.contains(7)) most[1] = std::max(most[1], held[1]);
      device.decide();
    }
    EXPECT_EQ(device.finished.size(), 8U);
    EXPECT_EQ(most[1] > 560, share == 1000) << most[1];
  }
}

TEST(MemberPool, AloneAMemberMayHaveItAll) {
  TestDevice device({.policy = "lares", .output_expected = 0, .member_pool = 500}, limits(1024));
  for (std::uint64_t id = 1; id <= 4; ++id) device.submit(id, 200, 20, 1, id);
  std::size_t most = 0;
  for (int i = 0; i < 500; ++i) {
    device.decide();
    most = std::max<std::size_t>(most, device.scheduler().running());
    if (!device.answer()) break;
  }
  EXPECT_EQ(most, 4U);
}

}  // namespace
}  // namespace lares::sched
