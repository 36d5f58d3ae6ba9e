// What members get of a device on which all of their jobs could run at once.
#include <gtest/gtest.h>

#include "sched/classes.h"
#include "sched/test_device.h"

namespace lares::sched {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::uint32_t kChat = 1;  // Of household_classes().

// A 0.1B model on two cores, rounded (BENCHMARKS.md).
CostTable two_cores() {
  CostTable table = *CostTable::create(
      {9 * kMs, 16 * kMs, 21 * kMs, 28 * kMs, 44 * kMs, 83 * kMs, 165 * kMs},
      {9 * kMs, 10 * kMs, 12 * kMs, 15 * kMs, 20 * kMs, 33 * kMs, 60 * kMs, 115 * kMs, 220 * kMs});
  table.decode_attended_ps = 5'000'000;
  table.prompt_attended_ps = 200'000;
  table.short_attended_ps = 2'000'000;
  table.mixed_ps = 13'000'000;
  return table;
}

// Members who each keep so many jobs under way, for some time.
class Household {
 public:
  Household(const Options& options, std::vector<std::uint32_t> in_flight)
      : device_(options, {.pool_tokens = 32768,
                          .context = 2048,
                          .sequences = 64,
                          .batch_tokens = 512,
                          .cut_anywhere = false}),
        in_flight_(std::move(in_flight)) {
    device_.cost = two_cores();
    device_.takes_time = true;
  }

  void live(Duration time) {
    while (device_.now().time_since_epoch() < time) {
      for (std::size_t m = 0; m < in_flight_.size(); ++m) ask(m);
      device_.decide();
      look();
      device_.answer();
    }
  }

  // Of device time, by member; Jain's index of them.
  [[nodiscard]] double jain() {
    double sum = 0, squares = 0, count = 0;
    for (const Scheduler::MemberUse& use : device_.scheduler().members()) {
      const auto served = static_cast<double>(use.counter);
      sum += served;
      squares += served * served;
      ++count;
    }
    return sum * sum / (count * squares);
  }

  std::uint32_t widest = 0, prompts = 0, mixed = 0;
  double running = 0, steps = 0;

 private:
  void ask(std::size_t m) {
    std::uint32_t under_way = 0;
    for (const auto& [id, job] : device_.jobs) under_way += job.member == m ? 1 : 0;
    for (; under_way < in_flight_[m]; ++under_way) {
      ++jobs_;
      device_.submit(jobs_, 240, 64, m, jobs_, kChat);
    }
  }
  void look() {
    std::uint32_t decodes = 0, chunks = 0;
    for (const StepItem& item : device_.last_run()) ++(item.tokens == 1 ? decodes : chunks);
    widest = std::max(widest, decodes);
    prompts += chunks > 0 ? 1 : 0;
    mixed += chunks > 0 && decodes > 0 ? 1 : 0;
    running += device_.scheduler().running();
    ++steps;
  }

  TestDevice device_;
  std::vector<std::uint32_t> in_flight_;
  std::uint64_t jobs_ = 0;
};

Options options_with(Duration lead) {
  Options options;
  options.classes = household_classes();
  options.lead_max = lead;
  return options;
}

TEST(Fair, WhoKeepsMoreUnderWayIsServedNoMore) {
  Household fair(options_with(milliseconds(500)), {4, 16});
  fair.live(seconds(30));
  EXPECT_GE(fair.jain(), 0.99);
  Household unfair(options_with(seconds(60)), {4, 16});
  unfair.live(seconds(30));
  EXPECT_LE(unfair.jain(), 0.95);
}

TEST(Fair, OneStreamBesideManyLeavesTheDeviceWellUsed) {
  Household home(options_with(milliseconds(500)), {1, 16});
  home.live(seconds(30));
  const double wide = home.running / home.steps;
  EXPECT_GE(wide, 7);  // The knee is at eight.
  EXPECT_LE(wide, 10);
}

TEST(Fair, AloneNobodyWaitsForAnybody) {
  Household home(options_with(milliseconds(500)), {16});
  home.live(seconds(20));
  EXPECT_GE(home.widest, 12U);
}

TEST(Apart, PromptsAreReadBetweenTheStepsOfStreams) {
  Household home(options_with(milliseconds(500)), {12});
  home.live(seconds(30));
  EXPECT_GE(home.prompts, 100U);
  EXPECT_LE(home.mixed, home.prompts / 5);  // While few streams run, mixing is cheaper.
}

}  // namespace
}  // namespace lares::sched
