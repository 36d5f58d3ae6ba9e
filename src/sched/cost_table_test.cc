#include "sched/cost_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace lares::sched {
namespace {

constexpr std::int64_t kMs = 1'000'000;

CostTable measured() {
  // The first ten knots of docs/ARCHITECTURE.md's 0.1B model; the last three are drawn on.
  return *CostTable::create({6 * kMs, 12 * kMs, 17 * kMs, 23 * kMs, 25 * kMs, 38 * kMs, 60 * kMs,
                             103 * kMs, 181 * kMs, 408 * kMs});
}

TEST(CostTable, ReadsStraightLinesBetweenItsKnots) {
  const CostTable table = measured();
  EXPECT_EQ(table.time({}), Duration{});
  EXPECT_EQ(table.time({.tokens = 1}), Duration(6 * kMs));
  EXPECT_EQ(table.time({.tokens = 3}), Duration(14'500'000));
  EXPECT_EQ(table.time({.tokens = 512}), Duration(408 * kMs));
  // Beyond what was measured, as steep as the last part of it: 227 ms for 256 tokens.
  EXPECT_NEAR(static_cast<double>(table.time({.tokens = 1024}).count()), 862e6, 1e3);
}

TEST(CostTable, AddsWhatAttentionAndAPassOverPromptsCost) {
  CostTable table = measured();
  table.attended_ps = 2'000'000;
  table.span_ps = 500'000;
  table.prompt_pass_ns = 5 * kMs;
  EXPECT_EQ(table.time({.tokens = 1, .attended = 1000}), Duration(8 * kMs));
  EXPECT_EQ(table.time({.tokens = 1, .span = 2000}), Duration(7 * kMs));
  EXPECT_EQ(table.time({.tokens = 2, .prompt = 1}), Duration(17 * kMs));
  EXPECT_EQ(attended_by(10, 3), 10U + 11U + 12U + 3U);  // Each attends to itself, too.
}

TEST(CostTable, SaysHowMuchPromptFitsIntoATime) {
  const CostTable table = measured();
  EXPECT_EQ(table.prompt_within(Duration(38 * kMs), {.tokens = 4}, 0, 1000), 28U);
  EXPECT_EQ(table.prompt_within(Duration(38 * kMs), {.tokens = 4}, 0, 20), 20U);
  EXPECT_EQ(table.prompt_within(Duration(5 * kMs), {.tokens = 4}, 0, 1000), 0U);
}

TEST(CostTable, OneSlowStepMovesItLittleAndManyMoveItThere) {
  CostTable table = measured();
  const StepShape shape{.tokens = 16};
  for (int i = 0; i < 20; ++i) table.observe(shape, Duration(25 * kMs));
  table.observe(shape, Duration(750 * kMs));  // Something else took the cores.
  EXPECT_LE(table.time(shape), Duration(26 * kMs));
  for (int i = 0; i < 100; ++i) table.observe(shape, Duration(50 * kMs));
  EXPECT_NEAR(static_cast<double>(table.time(shape).count()), 50e6, 2e6);
  for (int i = 0; i < 1000; ++i) table.observe(shape, Duration(5000 * kMs));
  EXPECT_LE(table.time(shape), Duration(8 * 25 * kMs));
}

TEST(CostTable, AProbeOnABusyMachineIsCorrectedEverywhereByTheStepsThatAreTried) {
  const CostTable truth = measured();
  std::array<std::int64_t, CostTable::kKnots> slow{};
  for (std::size_t i = 0; i < slow.size(); ++i)
    slow[i] = 30 * truth.time({.tokens = CostTable::knot_tokens(i)}).count();
  CostTable table = *CostTable::create(slow);
  // Long steps seem too slow, so only short ones are made.
  for (int i = 0; i < 300; ++i) {
    for (const std::uint32_t tokens : {4U, 20U})
      table.observe({.tokens = tokens}, truth.time({.tokens = tokens}));
  }
  for (const std::uint32_t tokens : {1U, 4U, 32U, 128U, 512U, 4096U}) {
    const auto right = static_cast<double>(truth.time({.tokens = tokens}).count());
    EXPECT_NEAR(static_cast<double>(table.time({.tokens = tokens}).count()), right, right / 4)
        << tokens;
  }
}

TEST(CostTable, ATextReadsBackEqualAndAWrongOneIsNamed) {
  CostTable table = measured();
  table.attended_ps = 7;
  table.prompt_pass_ns = 9;
  EXPECT_EQ(*CostTable::parse(table.to_text()), table);
  EXPECT_NE(CostTable::parse("1:5,3:9").error().message.find("3:9"), std::string::npos);
  EXPECT_FALSE(CostTable::parse("").has_value());
}

RC_GTEST_PROP(CostTableProperty, MoreTokensNeverTakeLessTime, ()) {
  CostTable table = measured();
  const auto steps =
      *rc::gen::container<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(rc::gen::pair(
          rc::gen::inRange<std::uint32_t>(1, 3000), rc::gen::inRange<std::uint32_t>(1, 2'000'000)));
  for (const auto& [tokens, us] : steps) table.observe({.tokens = tokens}, Duration(us * 1000LL));
  for (std::uint32_t tokens = 1; tokens < 5000; tokens += 7) {
    RC_ASSERT(table.time({.tokens = tokens}) <= table.time({.tokens = tokens + 7}));
  }
}

}  // namespace
}  // namespace lares::sched
