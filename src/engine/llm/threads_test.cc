// The governor on a made-up clock: competing work comes and goes.
#include "engine/llm/threads.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace lares::llm {
namespace {

using std::chrono::milliseconds;

class GovernorTest : public testing::Test {
 protected:
  // Lets `span` pass, updating every 100 ms, while others use `others` cores and we the rest.
  std::uint32_t pass(Duration span, double others) {
    for (Duration gone{}; gone < span; gone += milliseconds(100)) {
      times_.now += milliseconds(100);
      const double own = std::min(static_cast<double>(times_.cores) - others,
                                  static_cast<double>(governor_.threads()));
      times_.own += part(own);
      times_.machine += part(own + others);
      if (governor_.due(times_.now)) governor_.update(times_);
    }
    return governor_.threads();
  }
  static Duration part(double cores) {
    return std::chrono::duration_cast<Duration>(milliseconds(100) * cores);
  }

  CpuTimes times_{.now = {}, .machine = {}, .own = {}, .cores = 4};
  ThreadGovernor governor_{4};
};

TEST_F(GovernorTest, QuietMachineUsesEverything) {
  EXPECT_EQ(pass(milliseconds(3000), 0), 4U);
}

TEST_F(GovernorTest, SmallLoadsChangeNothing) {
  EXPECT_EQ(pass(milliseconds(3000), 0.22), 4U);
}

TEST_F(GovernorTest, BacksOffFastAndReturnsAfterASecond) {
  pass(milliseconds(1000), 0);
  EXPECT_EQ(pass(milliseconds(500), 2), 2U);
  EXPECT_EQ(pass(milliseconds(5000), 2), 2U);
  EXPECT_EQ(pass(milliseconds(900), 0), 2U);  // Not yet: it may only be reading a file.
  EXPECT_EQ(pass(milliseconds(1000), 0), 4U);
}

TEST_F(GovernorTest, AShortBurstChangesNothingOrLittle) {
  pass(milliseconds(1000), 0);
  EXPECT_EQ(pass(milliseconds(100), 0.4), 4U);
  EXPECT_EQ(pass(milliseconds(1000), 0), 4U);
}

TEST_F(GovernorTest, PausesOfTheNeighbourDoNotLureUsBack) {
  pass(milliseconds(1000), 2);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pass(milliseconds(800), 0), 2U);
    EXPECT_EQ(pass(milliseconds(400), 2), 2U);
  }
}

TEST_F(GovernorTest, NeverBelowOneNorAboveTheLimit) {
  EXPECT_EQ(pass(milliseconds(2000), 4), 1U);
  governor_.set_most(2);
  EXPECT_EQ(pass(milliseconds(5000), 0), 2U);
  governor_.set_most(1);
  EXPECT_EQ(governor_.threads(), 1U);
  governor_.set_most(0);
  EXPECT_EQ(pass(milliseconds(5000), 0), 1U);
  governor_.set_most(3);
  EXPECT_EQ(pass(milliseconds(5000), 0), 3U);
}

TEST_F(GovernorTest, IsDueEvery100Milliseconds) {
  EXPECT_TRUE(governor_.due(times_.now));
  governor_.update(times_);
  EXPECT_FALSE(governor_.due(times_.now + milliseconds(99)));
  EXPECT_TRUE(governor_.due(times_.now + milliseconds(100)));
}

TEST(Governor, AnyNumbersKeepTheInvariant) {
  // Counters that jump or go backwards (a suspended machine, another core online) do no harm.
  EXPECT_TRUE(rc::check([] {
    ThreadGovernor governor(*rc::gen::inRange(0U, 9U));
    Instant now;
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(-50, 5000), rc::gen::inRange(-5000, 50000),
                       rc::gen::inRange(-5000, 50000)));
    CpuTimes times;
    for (const auto& [wall, machine, own] : steps) {
      times.now += milliseconds(wall);
      times.machine += milliseconds(machine);
      times.own += milliseconds(own);
      times.cores = static_cast<std::uint32_t>(1 + std::abs(machine) % 16);
      RC_ASSERT(governor.update(times) >= 1U);
      RC_ASSERT(governor.threads() <= 8U);
      RC_ASSERT(governor.others() >= 0);
    }
  }));
}

TEST(CpuTimesTest, CountersOfThisMachineGrow) {
  const CpuTimes before = read_cpu_times(Instant{});
  volatile double sink = 0;
  CpuTimes after = before;
  while (after.own - before.own <
         milliseconds(30)) {  // Work, not time: however slow the machine is.
    for (int i = 0; i < 100000; ++i) sink = sink + i;
    after = read_cpu_times(Instant{});
  }
  EXPECT_GE(after.machine, before.machine);
  EXPECT_GE(after.cores, 1U);
}

}  // namespace
}  // namespace lares::llm
