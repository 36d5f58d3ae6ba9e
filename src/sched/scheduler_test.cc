#include "sched/scheduler.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sched/classes.h"
#include "sched/test_device.h"

namespace lares::sched {
namespace {

std::uint32_t tokens_of(const TestDevice& device, std::uint64_t job) {
  for (const StepItem& item : device.last_run()) {
    if (item.job.value == job) return item.tokens;
  }
  return 0;
}

TEST(Scheduler, RunsOneJobToItsLimit) {
  TestDevice device({.policy = "sarathi"});
  device.submit(1, 20, 5);
  device.run_until_idle();
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{1});
  EXPECT_EQ(device.computed, 20U + 4U);  // The last token is sampled and never computed.
}

TEST(Scheduler, KeepsOneRunQueuedBehindTheOneThatComputes) {
  TestDevice device({.policy = "sarathi"});
  device.submit(1, 20, 8);
  device.decide();
  EXPECT_EQ(device.unanswered(), 2U);  // The prompt, and the token it will sample.
  EXPECT_EQ(tokens_of(device, 1), 1U);
}

TEST(Scheduler, CutsALongPromptIntoChunksAndMixesDecodesIn) {
  TestDevice device({.policy = "sarathi", .step_tokens = 64, .runs_in_flight = 1});
  device.submit(1, 10, 50, 0, 1);
  device.decide();
  device.answer();
  device.submit(2, 200, 4, 0, 2);
  device.decide();
  EXPECT_EQ(tokens_of(device, 1), 1U);
  EXPECT_EQ(tokens_of(device, 2), 63U);
  device.answer();
  device.decide();
  EXPECT_EQ(tokens_of(device, 1), 1U);
  EXPECT_EQ(tokens_of(device, 2), 63U);
  device.run_until_idle();
  EXPECT_EQ(device.finished.size(), 2U);
}

TEST(Scheduler, OrcaLetsJobsJoinARunningBatchAndFifoDoesNot) {
  for (const auto& [policy, joins] : {std::pair("orca", true), std::pair("fifo", false)}) {
    TestDevice device({.policy = policy, .runs_in_flight = 1});
    device.submit(1, 10, 50, 0, 1);
    device.decide();
    device.answer();
    device.submit(2, 10, 50, 0, 2);
    device.decide();
    EXPECT_EQ(tokens_of(device, 2) > 0, joins) << policy;
    device.run_until_idle();
    EXPECT_EQ(device.finished.size(), 2U);
  }
}

TEST(Scheduler, FirstComeFirstServed) {
  TestDevice device({.policy = "sarathi", .running_max = 1});
  for (std::uint64_t id = 1; id <= 5; ++id) device.submit(id, 10, 3, 0, id);
  device.run_until_idle();
  EXPECT_EQ(device.finished, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
}

TEST(Scheduler, CancelTakesEffectAtTheNextStepInPrefillToo) {
  TestDevice device(
      {.policy = "sarathi", .step_tokens = 32, .runs_in_flight = 1, .cache_tokens = 0});
  device.submit(1, 320, 5);
  device.decide();
  device.answer();
  device.end(1, EndCause::Cancelled);
  device.decide();
  EXPECT_EQ(device.unanswered(), 0U);
  EXPECT_EQ(device.computed, 32U);
  EXPECT_EQ(device.scheduler().pool(ModelId{0}).free, 4096U);
}

TEST(Scheduler, RefusesWhatCanNeverFit) {
  TestDevice device({.policy = "sarathi"},
                    {.pool_tokens = 256, .context = 2048, .sequences = 8, .batch_tokens = 512});
  device.submit(1, 200, 100);
  device.submit(2, 200, 50);
  device.run_until_idle();
  EXPECT_EQ(device.rejected, std::vector<std::uint64_t>{1});
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{2});
}

TEST(Scheduler, RefusesBeyondTheQueueLimit) {
  TestDevice device({.policy = "sarathi", .jobs_max = 2});
  for (std::uint64_t id = 1; id <= 3; ++id) device.submit(id, 10, 2);
  device.run_until_idle();
  EXPECT_EQ(device.rejected, std::vector<std::uint64_t>{3});
}

TEST(Scheduler, AModelThatFailsToLoadRejectsItsJobsOnly) {
  TestDevice device({.policy = "sarathi"});
  device.load_fails = true;
  device.submit(1, 10, 2);
  device.run_until_idle();
  device.submit(2, 10, 2);
  device.run_until_idle();
  EXPECT_EQ(device.rejected, (std::vector<std::uint64_t>{1, 2}));
}

TEST(Scheduler, AFullPoolSendsTheYoungestBackAndLosesNothing) {
  TestDevice device({.policy = "sarathi", .output_expected = 0, .cache_tokens = 0},
                    {.pool_tokens = 320, .context = 2048, .sequences = 8, .batch_tokens = 512});
  device.submit(1, 100, 150, 0, 1);
  device.submit(2, 100, 150, 0, 2);
  device.run_until_idle();
  EXPECT_EQ(device.finished, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_GT(device.computed, 2U * 249U);  // The second was computed again.
}

TEST(Scheduler, ALostDeviceIsLoadedAgainAndJobsGoOnWithTheirTokens) {
  TestDevice device({.policy = "sarathi", .cache_tokens = 0});
  device.submit(1, 100, 50);
  for (int i = 0; i < 10; ++i) {
    device.decide();
    device.answer();
  }
  const auto before = device.jobs.at(1).tokens;
  device.lose_device();
  device.decide();
  EXPECT_EQ(tokens_of(device, 1), 1U);
  EXPECT_EQ(device.jobs.at(1).opened, 2U);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), device.jobs.at(1).tokens.begin()));
  device.run_until_idle();
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{1});
}

TEST(Scheduler, AJobThatKillsItsWorkerRunsAloneAndIsThenRefused) {
  TestDevice device({.policy = "sarathi", .losses_max = 3});
  device.submit(1, 30, 5, 0, 1);
  device.submit(2, 30, 5, 0, 2);
  device.decide();
  device.lose_device();
  device.decide();
  device.lose_device();
  device.decide();
  // Both are suspects now; the older runs alone and takes the worker down once more.
  EXPECT_EQ(device.last_run().size(), 1U);
  device.lose_device();
  device.run_until_idle();
  EXPECT_EQ(device.rejected, std::vector<std::uint64_t>{1});
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{2});
}

TEST(Scheduler, AFollowUpPaysForItsNewWordsOnly) {
  TestDevice device({.policy = "sarathi"});
  device.submit(1, 160, 5, 0, 7);
  device.run_until_idle();
  const std::uint64_t first = device.computed;
  device.submit(2, 200, 5, 0, 7);  // The same first 160 tokens.
  device.run_until_idle();
  EXPECT_EQ(device.computed - first, 200U - 160U + 4U);
}

TEST(Scheduler, WhatIsNeverReusedIsKeptLittleAndWhatIsReusedMore) {
  TestDevice useless({.cache_tokens = 4096},
                     {.pool_tokens = 8192, .context = 2048, .sequences = 64, .batch_tokens = 512});
  for (std::uint64_t id = 1; id <= 40; ++id) {
    useless.submit(id, 256, 2, 0, id);
    useless.run_until_idle();
  }
  EXPECT_LE(useless.scheduler().pool(ModelId{0}).cached, 1024U + 272U);
  TestDevice useful({.cache_tokens = 4096},
                    {.pool_tokens = 8192, .context = 2048, .sequences = 64, .batch_tokens = 512});
  for (std::uint64_t id = 1; id <= 60; ++id) {  // Four conversations that go on, then ten.
    useful.submit(id, 256, 2, 0, id <= 20 ? id % 4 : id % 10);
    useful.run_until_idle();
  }
  EXPECT_GE(useful.scheduler().pool(ModelId{0}).cached, 2500U);
}

TEST(Scheduler, NobodyReusesAnotherMembersWords) {
  TestDevice device({.policy = "sarathi"});
  device.submit(1, 160, 5, 1, 7);
  device.run_until_idle();
  const std::uint64_t first = device.computed;
  device.submit(2, 160, 5, 2, 7);
  device.run_until_idle();
  EXPECT_EQ(device.computed, 2 * first);
}

TEST(Scheduler, JobsThatComeTogetherComputeTheirSharedPrefixOnce) {
  TestDevice device({.policy = "sarathi", .step_tokens = 128});
  for (std::uint64_t id = 1; id <= 8; ++id) device.submit(id, 1024 + 16, 4, 0, 7);
  device.run_until_idle();
  EXPECT_EQ(device.finished.size(), 8U);
  // 1,040 tokens once, then the last block (it must be computed to sample) and 3 decodes each.
  EXPECT_LE(device.computed, 1040U + 7U * 16U + 8U * 3U);
}

TEST(Scheduler, SharedCellsAreCountedOnce) {
  TestDevice device({.policy = "sarathi", .output_expected = 0, .cache_tokens = 0},
                    {.pool_tokens = 1024, .context = 2048, .sequences = 32, .batch_tokens = 512});
  for (std::uint64_t id = 1; id <= 16; ++id) device.submit(id, 640, 8, 0, 7);
  device.run_until_idle();
  EXPECT_EQ(device.finished.size(), 16U);
  EXPECT_LT(device.computed, 2U * 640U);  // Sixteen times 640 would never fit 1,024 cells at once.
}

TEST(Scheduler, ModelsWithWorkTakeTurns) {
  auto scheduler = std::move(*Scheduler::create({.policy = "sarathi", .runs_in_flight = 1}));
  Decision out;
  const ModelLimits limits{.pool_tokens = 1024, .context = 512, .sequences = 8, .batch_tokens = 64};
  std::vector<Event> events;
  for (std::uint32_t m = 0; m < 3; ++m) {
    events.emplace_back(ModelReady{ModelId{m}, DeviceId{0}, limits});
    events.emplace_back(Submitted{JobId{m + 1}, {}, {}, {}, ModelId{m}, 8, 50, {}});
  }
  scheduler.step(Instant{}, events, out);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 9; ++i) {
    const auto& run = std::get<RunStep>(out.actions.back());
    order.push_back(run.model.value);
    const ItemDone done{out.items[run.first].job, out.items[run.first].tokens, true};
    const Event answer = Stepped{DeviceId{0}, run.run, Duration(1), std::span(&done, 1)};
    scheduler.step(Instant{}, std::span(&answer, 1), out);
    scheduler.check();
  }
  EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST(Scheduler, APromptIsReadThoughReadingCostsExtraAndNothingElseRuns) {
  TestDevice device({.policy = "lares"});
  device.cost.prompt_pass_ns = 50'000'000;
  device.submit(1, 2000, 3);
  device.run_until_idle();
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{1});
}

TEST(Scheduler, AStreamThatIsComputedAgainIsNoReasonForShortSteps) {
  TestDevice device({.policy = "lares", .classes = household_classes()});
  device.submit(1, 600, 50);
  for (int i = 0; i < 12; ++i) {
    device.decide();
    device.answer();
  }
  device.decide();
  device.lose_device();
  device.wait(std::chrono::seconds(3));  // Its next output is late.
  device.decide();
  device.answer();
  device.decide();                        // The second chunk: from the first on it runs.
  EXPECT_GE(tokens_of(device, 1), 128U);  // A tenth of a second, not the floor.
  device.run_until_idle();
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{1});
}

TEST(Scheduler, SharesThatAddUpToMoreThanTheWholeAreRefused) {
  auto classes = household_classes();
  classes[0].floor = 900;
  const auto made = Scheduler::create({.policy = "lares", .classes = classes});
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message.find("floor shares add up to 107.0 %"), std::string::npos)
      << made.error().message;
}

TEST(Scheduler, OptionsOutOfRangeAreNamed) {
  EXPECT_NE(Scheduler::create({.step_tokens = 0}).error().message.find("step_tokens"),
            std::string::npos);
  EXPECT_NE(Scheduler::create({.policy = "orka"}).error().message.find("Did you mean `orca`?"),
            std::string::npos);
}

// Random schedules: jobs that come, end by themselves, are cancelled, share words, worker losses,
// pools of any tightness. TestDevice asserts that nothing impossible is asked; check() that
// invariants hold.
RC_GTEST_PROP(SchedulerProperty, EveryAcceptedJobEndsOnceAndTheLogReplays, ()) {
  const auto pool = *rc::gen::inRange<std::uint32_t>(12, 80) * 16;
  Options options;
  options.policy =
      *rc::gen::element<std::string>("orca", "fifo", "sarathi", "vtc", "priority", "lares");
  options.classes = household_classes();
  options.step_tokens = *rc::gen::inRange<std::uint32_t>(1, 96);
  options.running_max = *rc::gen::inRange<std::uint32_t>(1, 8);
  options.runs_in_flight = *rc::gen::inRange<std::uint32_t>(1, 3);
  options.output_expected = *rc::gen::inRange<std::uint32_t>(0, 40);
  options.cache_tokens = *rc::gen::inRange<std::uint32_t>(0, 400);
  options.losses_max = *rc::gen::inRange<std::uint32_t>(1, 6);
  options.member_pool = *rc::gen::element<std::uint32_t>(1000, 500, 1);
  const auto spare = *rc::gen::inRange<std::uint32_t>(0, 6);
  TestDevice device(options, {.pool_tokens = pool,
                              .context = 180,
                              .sequences = options.running_max + spare,
                              .batch_tokens = 80,
                              .cut_anywhere = *rc::gen::arbitrary<bool>(),
                              .kv_per_token = Bytes{64}});
  device.cost.decode_attended_ps = *rc::gen::element<std::int64_t>(0, 100'000);
  device.cost.prompt_attended_ps = *rc::gen::element<std::int64_t>(0, 100'000);
  device.cost.short_attended_ps = *rc::gen::element<std::int64_t>(0, 100'000, 3'000'000);
  device.cost.mixed_ps = *rc::gen::element<std::int64_t>(0, 100'000, 100'000'000);
  device.give_host(Bytes{*rc::gen::element<std::int64_t>(0, 10'000, 1'000'000)});
  device.saves_fail = *rc::gen::inRange(0, 4) == 0;
  device.refuse_restores = *rc::gen::inRange(0, 3);
  const auto steps =
      *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
  std::uint64_t submitted = 0;
  for (const std::uint32_t random : steps) {
    switch (random % 8) {
      case 0:
      case 1:
      case 2: {
        const auto prompt = 1 + random / 8 % 120;
        device.submit(++submitted, prompt, 1 + random / 1024 % 60, random / 64 % 2,
                      random / 128 % 3, random / 16 % 6, random / 256 % 3);
        device.jobs.at(submitted).stop_at = random / 4096 % 20;
        break;
      }
      case 3:
        if (submitted > 0) device.end(1 + random / 8 % submitted, EndCause::Cancelled);
        break;
      case 4:
        if (random / 8 % 8 == 0) device.lose_device();
        break;
      default: device.answer(); break;
    }
    device.decide();
  }
  device.run_until_idle();
  RC_ASSERT(device.jobs.empty());
  RC_ASSERT(device.finished.size() + device.ended.size() + device.rejected.size() == submitted);
  RC_ASSERT(device.scheduler().waiting() + device.scheduler().running() == 0U);
  RC_TAG(device.put_back > 0);
  const auto report = replay(device.log);
  RC_ASSERT(report.has_value());
}

TEST(EventLog, NamesTheLineThatCannotBeReadAndTheStepThatDiffers) {
  TestDevice device({.policy = "sarathi"});
  device.submit(1, 20, 5);
  device.run_until_idle();
  ASSERT_TRUE(replay(device.log).has_value());
  EXPECT_GT(replay(device.log)->steps, 3U);

  std::string broken = device.log;
  broken.replace(broken.find("prompt=20"), 9, "prompt=x ");
  EXPECT_NE(replay(broken).error().message.find("line"), std::string::npos);

  std::string other = device.log;
  other.replace(other.find("step=512"), 8, "step=10 ");
  EXPECT_EQ(replay(other).error().code, Code::Conflict);
}

}  // namespace
}  // namespace lares::sched
