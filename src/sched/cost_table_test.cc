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
  table.decode_attended_ps = 2'000'000;
  table.prompt_attended_ps = table.short_attended_ps = 100'000;
  table.span_ps = 500'000;
  table.prompt_pass_ns = 5 * kMs;
  EXPECT_EQ(table.time({.tokens = 1, .attended = 1000, .decoded = 1000}), Duration(8 * kMs));
  EXPECT_EQ(table.time({.tokens = 2, .prompt = 2, .attended = 10'000}), Duration(18 * kMs));
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
  table.decode_attended_ps = 7;
  table.prompt_attended_ps = 8;
  table.short_attended_ps = 11;
  table.mixed_ps = 10;
  table.prompt_pass_ns = 9;
  EXPECT_EQ(*CostTable::parse(table.to_text()), table);
  EXPECT_NE(CostTable::parse("1:5,3:9").error().message.find("3:9"), std::string::npos);
  EXPECT_FALSE(CostTable::parse("").has_value());
}

// Of a device whose prompts read at half a millisecond a token, behind 5 ms.
CostTable apart() {
  CostCurve::Knots prompts{};
  for (std::size_t i = 0; i < prompts.size(); ++i)
    prompts[i] = 5 * kMs + kMs / 2 * CostCurve::knot_tokens(i);
  return *CostTable::create({9 * kMs, 16 * kMs, 21 * kMs, 28 * kMs, 44 * kMs, 83 * kMs}, prompts);
}

TEST(CostTable, APromptBesideDecodesGoesOnAlongItsOwnCurve) {
  const CostTable table = apart();
  EXPECT_EQ(table.time({.tokens = 16}), Duration(44 * kMs));
  EXPECT_EQ(table.time({.tokens = 32, .prompt = 32}), Duration(21 * kMs));
  // 16 tokens of prompt behind sixteen others: 8 ms, for the 5 are paid already.
  EXPECT_EQ(table.time({.tokens = 32, .prompt = 16}), Duration(52 * kMs));
}

TEST(CostTable, PromptsAreReadApartWhereMixingCostsMoreThanItSaves) {
  CostTable table = apart();
  StepShape decodes{};
  for (int i = 0; i < 16; ++i) decodes.add(299, 1);
  EXPECT_EQ(decodes.decoded, 4800U);
  EXPECT_FALSE(table.better_apart(decodes, 64));
  table.mixed_ps = 1'000'000;  // 4.8 ms, where 5 are saved.
  EXPECT_FALSE(table.better_apart(decodes, 64));
  table.mixed_ps = 1'100'000;
  EXPECT_TRUE(table.better_apart(decodes, 64));
}

TEST(CostTable, FarFromItsBeginningAPromptIsReadByWholeTiles) {
  CostTable table = apart();
  table.prompt_attended_ps = 300'000;
  table.short_attended_ps = 3'000'000;
  // At position 4,000: 16 tokens take 13 + 192 ms, 64 take 37 + 77.
  EXPECT_EQ(table.fill_tile({}, 4000, 16, 500), 64U);
  EXPECT_EQ(table.fill_tile({}, 4000, 16, 40), 16U) << "there are no more";
  EXPECT_EQ(table.fill_tile({}, 0, 48, 500), 48U) << "near its beginning it matters little";
  EXPECT_EQ(table.prompt_within(Duration(120 * kMs), {}, 4000, 500), 67U);
  // Beside eight decodes a chunk of 56 fills it.
  EXPECT_EQ(table.fill_tile({.tokens = 8, .attended = 800, .decoded = 800}, 4000, 16, 500), 56U);
  table.short_attended_ps = 300'000;  // A device without tiles.
  EXPECT_EQ(table.fill_tile({}, 4000, 16, 500), 16U);
}

TEST(CostTable, APartOfAStepIsPricedAsTheWholeWasComputed) {
  CostTable table = apart();
  table.prompt_attended_ps = 300'000;
  table.short_attended_ps = 3'000'000;
  StepShape shape{};
  shape.add(4000, 40);
  shape.add(4000, 40);
  // Each alone would be no tile, and dearer than both.
  const std::int64_t whole = table.time(shape).count();
  const std::int64_t part = table.marginal(shape, whole, 4000, 40, true);
  EXPECT_NEAR(static_cast<double>(part), 40 * kMs / 2 + 40 * 4020 * 300, 1e6);
}

TEST(CostTable, TheKneeIsWhereMoreDecodesMakeEachLittleCheaper) {
  // A token costs 9, 8, 5.25, 3.5, 2.75 and 2.6 ms.
  EXPECT_EQ(apart().knee(64), 8U);
  EXPECT_EQ(apart().knee(16), 8U);
  // Where a step costs the same however wide it is, only the widest will do.
  EXPECT_EQ(CostTable::create({kMs, kMs, kMs, kMs, kMs, kMs, kMs})->knee(64), 64U);
}

TEST(CostTable, AProbeTellsWhatAttendingAndMixingCost) {
  CostTable truth = apart();
  truth.decode_attended_ps = 5'000'000;
  truth.prompt_attended_ps = 200'000;
  truth.short_attended_ps = 2'000'000;
  truth.mixed_ps = 13'000'000;
  std::vector<CostTable::Probe> steps;
  const auto probe = [&](std::uint32_t decodes, std::uint32_t position, std::uint32_t prompt,
                         std::uint32_t from) {
    StepShape shape{};
    for (std::uint32_t i = 0; i < decodes; ++i) shape.add(position, 1);
    if (prompt > 0) shape.add(from, prompt);
    steps.push_back({shape, truth.time(shape)});
  };
  for (std::uint32_t n = 1; n <= 32; n *= 2) probe(n, 0, 0, 0);
  for (std::uint32_t n = 2; n <= 512; n *= 2) probe(0, 0, n, 0);
  probe(1, 512, 64, 0);
  probe(1, 512, 0, 0);
  probe(0, 0, 64, 512);
  probe(0, 0, 32, 512);
  const CostTable fitted = *CostTable::fit(steps);
  for (const StepShape& shape :
       {StepShape{.tokens = 16, .attended = 4800, .decoded = 4800},
        StepShape{.tokens = 64, .prompt = 64, .attended = 60'000},
        StepShape{.tokens = 32, .prompt = 32, .attended = 60'000},
        StepShape{.tokens = 80, .prompt = 64, .attended = 64'800, .decoded = 4800}}) {
    const auto right = static_cast<double>(truth.time(shape).count());
    EXPECT_NEAR(static_cast<double>(fitted.time(shape).count()), right, right / 20);
  }
  EXPECT_FALSE(CostTable::fit({}).has_value());
}

TEST(CostTable, StepsOfBothTeachWhatMixingCosts) {
  CostTable truth = apart();
  truth.mixed_ps = 13'000'000;
  CostTable table = apart();
  const StepShape shape{.tokens = 80, .prompt = 64, .attended = 9000, .decoded = 4800};
  for (int i = 0; i < 12; ++i) table.observe(shape, truth.time(shape));
  EXPECT_NEAR(static_cast<double>(table.mixed_ps), 13e6, 1e6);
  for (int i = 0; i < 600; ++i) table.observe(shape, apart().time(shape));
  EXPECT_LE(table.mixed_ps, 500'000);
  EXPECT_EQ(table.time({.tokens = 16}), Duration(44 * kMs)) << "a step of both moves no curve";
}

TEST(CostTable, WhatAttendingCostsIsLearntFromStepsThatAttendFarBack) {
  CostTable truth = apart();
  truth.decode_attended_ps = 5'000'000;
  truth.prompt_attended_ps = 300'000;
  truth.short_attended_ps = 3'000'000;
  // Probes beside a compiler: everything seemed ten times as dear, and attending either dear or
  // free.
  for (const std::int64_t dear : {50'000'000, 0}) {
    CostCurve::Knots decodes{}, prompts{};
    for (std::size_t k = 0; k < decodes.size(); ++k) {
      const std::uint32_t n = CostCurve::knot_tokens(k);
      decodes[k] = 10 * truth.time({.tokens = n}).count();
      prompts[k] = 10 * truth.time({.tokens = n, .prompt = n}).count();
    }
    CostTable table = *CostTable::create(decodes, prompts);
    table.decode_attended_ps = table.prompt_attended_ps = table.short_attended_ps = dear;
    std::vector<StepShape> shapes;
    for (const std::uint32_t from : {0U, 200U, 3000U}) {
      for (const std::uint32_t chunk : {1U, 16U, 64U, 128U}) {
        StepShape shape{};
        shape.add(from, chunk);
        shapes.push_back(shape);
      }
    }
    for (int i = 0; i < 400; ++i) {
      for (const StepShape& shape : shapes) table.observe(shape, truth.time(shape));
    }
    EXPECT_TRUE(table.has_tiles());
    for (const StepShape& shape : shapes) {
      const auto right = static_cast<double>(truth.time(shape).count());
      EXPECT_NEAR(static_cast<double>(table.time(shape).count()), right, right / 4)
          << shape.tokens << " tokens, " << shape.attended << " positions";
    }
  }
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
