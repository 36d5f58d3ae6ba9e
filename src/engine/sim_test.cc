#include "engine/sim.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace lares::engine {
namespace {

constexpr ModelId kModel{1};

LoadSpec spec_with(std::uint32_t pool, std::uint32_t sequences = 8) {
  LoadSpec spec;
  spec.model = kModel;
  spec.path = "any";
  spec.pool_tokens = pool;
  spec.sequences = sequences;
  return spec;
}

std::vector<std::int32_t> prompt_of(std::uint32_t n, std::int32_t first = 10) {
  std::vector<std::int32_t> tokens;
  for (std::uint32_t i = 0; i < n; ++i) tokens.push_back(first + static_cast<std::int32_t>(i % 90));
  return tokens;
}

Open open_of(std::uint32_t seq, std::vector<std::int32_t> tokens) {
  Open open;
  open.model = kModel;
  open.seq = SeqId{seq};
  open.prompt_tokens = static_cast<std::uint32_t>(tokens.size());
  open.tokens = std::move(tokens);
  return open;
}

Run run_of(std::vector<RunItem> items) {
  Run run;
  run.run = RunId{1};
  run.model = kModel;
  run.items = std::move(items);
  return run;
}

class SimTest : public ::testing::Test {
 protected:
  void start(SimOptions options = {}, LoadSpec spec = spec_with(1000)) {
    options.end_one_in = end_one_in_;
    engine_ = std::make_unique<SimEngine>(options);
    ASSERT_TRUE(engine_->load(spec));
  }
  void TearDown() override {
    if (engine_) engine_->check();
  }

  // One item; asserts that the run is done.
  ItemResult step(std::uint32_t seq, std::uint32_t tokens) {
    Result<Ran> ran = engine_->run(run_of({{SeqId{seq}, tokens}}));
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
    return ran ? ran->items.at(0) : ItemResult{};
  }

  // Opens, computes the prompt in chunks and generates n tokens.
  std::vector<std::int32_t> generate(const Open& open, std::uint32_t chunk, std::uint32_t n) {
    EXPECT_TRUE(engine_->open(open));
    auto left = static_cast<std::uint32_t>(open.tokens.size()) - open.from_tokens;
    std::vector<std::int32_t> made;
    while (left > 0) {
      const std::uint32_t now = std::min(left, chunk);
      const ItemResult result = step(open.seq.value, now);
      left -= now;
      EXPECT_EQ(result.state, left > 0 ? ItemState::Advanced : ItemState::Sampled);
      if (left == 0) made.push_back(result.token);
    }
    while (made.size() < n) made.push_back(step(open.seq.value, 1).token);
    return made;
  }

  std::uint32_t end_one_in_ = 0;
  std::unique_ptr<SimEngine> engine_;
};

TEST_F(SimTest, SamplesWhenTheLastKnownTokenIsComputed) {
  start();
  ASSERT_TRUE(engine_->open(open_of(0, prompt_of(10))));
  EXPECT_EQ(step(0, 9).state, ItemState::Advanced);
  const ItemResult last = step(0, 1);
  EXPECT_EQ(last.state, ItemState::Sampled);
  EXPECT_GE(last.token, 3 + 32);
  EXPECT_LT(last.token, 3 + 127);
  EXPECT_EQ(step(0, 1).state, ItemState::Sampled);
}

TEST_F(SimTest, AdvancingBeyondWhatIsKnownIsInvalidAndChangesNothing) {
  start();
  ASSERT_TRUE(engine_->open(open_of(0, prompt_of(10))));
  ASSERT_TRUE(engine_->open(open_of(1, prompt_of(4))));
  const Result<Ran> ran = engine_->run(run_of({{SeqId{1}, 4}, {SeqId{0}, 11}}));
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, Code::Invalid);
  EXPECT_EQ(step(1, 4).state, ItemState::Sampled) << "the failed run had advanced it";
  EXPECT_FALSE(engine_->run(run_of({{SeqId{0}, 0}})));
  EXPECT_FALSE(engine_->run(run_of({{SeqId{0}, 1}, {SeqId{0}, 1}})));
}

TEST_F(SimTest, TextDependsOnTheSequenceAlone) {
  start();
  const auto alone = generate(open_of(0, prompt_of(20)), 20, 12);
  const auto chunked = generate(open_of(1, prompt_of(20)), 3, 12);
  EXPECT_EQ(alone, chunked);
  EXPECT_NE(alone, generate(open_of(2, prompt_of(21)), 21, 12));
  // Opened again with what had been made, as after a crash.
  auto tokens = prompt_of(20);
  tokens.insert(tokens.end(), alone.begin(), alone.begin() + 5);
  Open again = open_of(3, tokens);
  again.prompt_tokens = 20;
  const auto rest = generate(again, 7, 7);
  EXPECT_EQ(rest, std::vector<std::int32_t>(alone.begin() + 5, alone.end()));
}

TEST_F(SimTest, SeedAndChoiceMatterAboveTemperatureZeroOnly) {
  start();
  Open a = open_of(0, prompt_of(9));
  Open b = open_of(1, prompt_of(9));
  b.sampling.seed = 7;
  EXPECT_NE(generate(a, 9, 8), generate(b, 9, 8));
  a.seq = SeqId{2};
  b.seq = SeqId{3};
  a.sampling.temperature = b.sampling.temperature = 0;
  EXPECT_EQ(generate(a, 9, 8), generate(b, 9, 8));
}

TEST_F(SimTest, ASequenceThatEndedIsSkipped) {
  end_one_in_ = 1;
  start();
  ASSERT_TRUE(engine_->open(open_of(0, prompt_of(4))));
  EXPECT_EQ(step(0, 4).state, ItemState::Ended);
  EXPECT_EQ(step(0, 1).state, ItemState::Skipped);
  EXPECT_EQ(step(5, 1).state, ItemState::Skipped) << "never opened";
  Open stubborn = open_of(1, prompt_of(4));
  stubborn.sampling.ignore_eos = true;
  ASSERT_TRUE(engine_->open(stubborn));
  EXPECT_EQ(step(1, 4).state, ItemState::Sampled);
}

TEST_F(SimTest, EndsComeAboutAsOftenAsAskedFor) {
  end_one_in_ = 10;
  start({}, spec_with(4000, 200));
  int ended = 0;
  for (std::uint32_t seq = 0; seq < 200; ++seq) {
    ASSERT_TRUE(engine_->open(open_of(seq, prompt_of(5 + seq % 7, static_cast<int>(seq)))));
    ended += step(seq, 5 + seq % 7).state == ItemState::Ended ? 1 : 0;
  }
  EXPECT_GT(ended, 8);
  EXPECT_LT(ended, 40);
}

TEST_F(SimTest, AFullPoolIsBusyAndNothingAdvances) {
  start({}, spec_with(16));
  ASSERT_TRUE(engine_->open(open_of(0, prompt_of(12))));
  ASSERT_TRUE(engine_->open(open_of(1, prompt_of(12))));
  step(0, 12);
  const Result<Ran> ran = engine_->run(run_of({{SeqId{0}, 1}, {SeqId{1}, 12}}));
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, Code::Busy);
  EXPECT_EQ(engine_->memory().models[0].used_tokens, 12U);
  engine_->drop(kModel, SeqId{0});
  EXPECT_EQ(step(1, 12).state, ItemState::Sampled);
}

TEST_F(SimTest, SharedPrefixesTakeTheirCellsOnce) {
  start({}, spec_with(30));
  ASSERT_TRUE(engine_->open(open_of(0, prompt_of(20))));
  step(0, 20);
  Open branch = open_of(1, prompt_of(20));
  branch.tokens.push_back(99);
  branch.from = SeqId{0};
  branch.from_tokens = 20;
  ASSERT_TRUE(engine_->open(branch));
  EXPECT_EQ(step(1, 1).state, ItemState::Sampled);
  EXPECT_EQ(engine_->memory().models[0].used_tokens, 41U) << "counted for each";
  engine_->drop(kModel, SeqId{0});
  // 21 cells are held by the branch; its text goes on although the source has gone.
  EXPECT_EQ(step(1, 1).state, ItemState::Sampled);
  ASSERT_TRUE(engine_->open(open_of(2, prompt_of(9))));
  EXPECT_FALSE(engine_->run(run_of({{SeqId{2}, 9}})));
  EXPECT_EQ(step(2, 8).state, ItemState::Advanced);
}

TEST_F(SimTest, APrefixMustBeWhatTheSourceHasComputed) {
  start();
  ASSERT_TRUE(engine_->open(open_of(0, prompt_of(10))));
  step(0, 6);
  Open branch = open_of(1, prompt_of(10));
  branch.from = SeqId{0};
  branch.from_tokens = 7;
  EXPECT_EQ(engine_->open(branch).error().code, Code::Invalid) << "not computed yet";
  branch.from_tokens = 6;
  branch.tokens[2] = 99;
  EXPECT_EQ(engine_->open(branch).error().code, Code::Invalid) << "other tokens";
  branch.from = SeqId{4};
  EXPECT_EQ(engine_->open(branch).error().code, Code::NotFound);
  Open whole = open_of(1, prompt_of(6));
  whole.from = SeqId{0};
  whole.from_tokens = 6;
  EXPECT_EQ(engine_->open(whole).error().code, Code::Invalid) << "nothing left to compute";
}

TEST_F(SimTest, OpenRefusesWhatCannotBe) {
  start();
  EXPECT_EQ(engine_->open(open_of(0, {})).error().code, Code::Invalid);
  EXPECT_EQ(engine_->open(open_of(0, {-1})).error().code, Code::Invalid);
  EXPECT_EQ(engine_->open(open_of(0, {259})).error().code, Code::Invalid);
  EXPECT_EQ(engine_->open(open_of(8, {1})).error().code, Code::Invalid);
  EXPECT_EQ(engine_->open(open_of(0, prompt_of(5000))).error().code, Code::Invalid);
  Open elsewhere = open_of(0, {1});
  elsewhere.model = ModelId{9};
  EXPECT_EQ(engine_->open(elsewhere).error().code, Code::NotFound);
  ASSERT_TRUE(engine_->open(open_of(0, {1})));
  EXPECT_EQ(engine_->open(open_of(0, {1})).error().code, Code::Conflict);
}

TEST_F(SimTest, SavedSequencesGoOnWithTheSameText) {
  start({}, spec_with(40));
  const auto undisturbed = generate(open_of(0, prompt_of(10)), 10, 9);
  engine_->drop(kModel, SeqId{0});
  auto first = generate(open_of(1, prompt_of(10)), 10, 4);
  const Save save{kModel, SeqId{1}, StateId{4}, 0, 13};
  ASSERT_TRUE(engine_->save(save));
  EXPECT_EQ(engine_->save(save).error().code, Code::Conflict);
  engine_->drop(kModel, SeqId{1});
  EXPECT_EQ(engine_->memory().models[0].used_tokens, 0U);
  EXPECT_GT(engine_->memory().host_saved.count, 0);
  ASSERT_TRUE(engine_->open(open_of(2, prompt_of(30))));
  step(2, 30);
  Open again = open_of(1, prompt_of(10));
  again.tokens.insert(again.tokens.end(), first.begin(), first.end());
  ASSERT_TRUE(engine_->open(again));
  const Restore back{kModel, SeqId{1}, StateId{4}, 13};
  EXPECT_EQ(engine_->restore(back).error().code, Code::Busy);
  engine_->drop(kModel, SeqId{2});
  ASSERT_TRUE(engine_->restore(back));
  EXPECT_EQ(engine_->restore(back).error().code, Code::Invalid);  // It is there.
  while (first.size() < 9) first.push_back(step(1, 1).token);
  EXPECT_EQ(first, undisturbed);
  engine_->forget(kModel, StateId{4});
  EXPECT_EQ(engine_->memory().host_saved.count, 0);
}

TEST_F(SimTest, LimitsOfTheSpecHold) {
  LoadSpec spec = spec_with(1000);
  spec.batch_tokens = 16;
  spec.outputs = 1;
  start({}, spec);
  ASSERT_TRUE(engine_->open(open_of(0, prompt_of(40))));
  ASSERT_TRUE(engine_->open(open_of(1, prompt_of(2))));
  ASSERT_TRUE(engine_->open(open_of(2, prompt_of(2))));
  EXPECT_EQ(engine_->run(run_of({{SeqId{0}, 17}})).error().code, Code::TooLarge);
  EXPECT_EQ(engine_->run(run_of({{SeqId{1}, 2}, {SeqId{2}, 2}})).error().code, Code::TooLarge);
  EXPECT_TRUE(engine_->run(run_of({{SeqId{0}, 14}, {SeqId{2}, 2}})));
}

TEST_F(SimTest, TimeFollowsTheTable) {
  const SimCost cost;
  EXPECT_EQ(cost_at(cost.decode, 0), Duration{0});
  EXPECT_EQ(cost_at(cost.decode, 4), std::chrono::microseconds(16500));
  EXPECT_EQ(cost_at(cost.decode, 3), std::chrono::microseconds(13950));
  EXPECT_EQ(cost_at(cost.prompt, 4), std::chrono::milliseconds(5)) << "from (0, 0) to (8, 10 ms)";
  EXPECT_EQ(cost_at(cost.prompt, 768), std::chrono::milliseconds(625)) << "beyond the last point";
  SimOptions options;
  options.cost.attended = Duration{1};
  start(options);
  ASSERT_TRUE(engine_->open(open_of(0, prompt_of(9))));
  const Result<Ran> ran = engine_->run(run_of({{SeqId{0}, 8}}));
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->device, cost.fixed + std::chrono::milliseconds(10) + Duration{36});
  EXPECT_EQ(ran->span_tokens, 8U);
  const Result<Ran> decode = engine_->run(run_of({{SeqId{0}, 1}}));
  EXPECT_EQ(decode->device, cost.fixed + std::chrono::microseconds(5800) + Duration{9});
}

TEST_F(SimTest, LogprobsAreAsManyAsAskedForAndBeginWithTheToken) {
  start();
  Open open = open_of(0, prompt_of(3));
  open.sampling.logprobs = 4;
  ASSERT_TRUE(engine_->open(open));
  const ItemResult result = step(0, 3);
  ASSERT_EQ(result.top.size(), 4U);
  EXPECT_EQ(result.top[0].token, result.token);
  EXPECT_TRUE(std::ranges::is_sorted(result.top, std::ranges::greater{}, &TopToken::logprob));
}

TEST_F(SimTest, LoadAndUnload) {
  start();
  EXPECT_EQ(engine_->load(spec_with(10)).error().code, Code::Conflict);
  LoadSpec other = spec_with(10, 0);
  other.model = ModelId{2};
  EXPECT_EQ(engine_->load(other).error().code, Code::Invalid);
  other = spec_with(2'000'000'000);
  other.model = ModelId{2};
  EXPECT_EQ(engine_->load(other).error().code, Code::TooLarge);
  ASSERT_TRUE(engine_->unload(kModel));
  EXPECT_EQ(engine_->unload(kModel).error().code, Code::NotFound);
  EXPECT_EQ(engine_->run(run_of({})).error().code, Code::NotFound);
  engine_->drop(kModel, SeqId{0});
}

TEST_F(SimTest, LeasesAreUnsupported) {
  start();
  EXPECT_EQ(engine_->lease({1, Bytes{1}}).error().code, Code::Unsupported);
  EXPECT_EQ(engine_->release(1).error().code, Code::Unsupported);
}

// Every verb at random against the invariants: no cell is lost or held twice.
TEST_F(SimTest, RandomVerbsKeepThePool) {
  end_one_in_ = 20;
  start({}, spec_with(120, 6));
  std::mt19937 random(12345);
  int advanced = 0, saved = 0, restored = 0;
  for (int i = 0; i < 5000; ++i) {
    const SeqId seq{static_cast<std::uint32_t>(random() % 6)};
    switch (random() % 6) {
      case 0: {
        Open open = open_of(seq.value, prompt_of(1 + random() % 40));
        if (random() % 2 == 0) {
          open.from = SeqId{static_cast<std::uint32_t>(random() % 6)};
          open.from_tokens = static_cast<std::uint32_t>(random() % open.tokens.size());
        }
        (void)engine_->open(open);
        restored += engine_->restore({kModel, seq, StateId{1 + random() % 4},
                                      static_cast<std::uint32_t>(random() % 12)})
                        ? 1
                        : 0;
        break;
      }
      case 1: engine_->drop(kModel, seq); break;
      case 2: {
        const auto from = static_cast<std::uint32_t>(random() % 2 * (random() % 8));
        saved += engine_->save({kModel, seq, StateId{1 + random() % 4}, from,
                                static_cast<std::uint32_t>(1 + random() % 12)})
                     ? 1
                     : 0;
        break;
      }
      case 3: engine_->forget(kModel, StateId{1 + random() % 4}); break;
      default:
        advanced +=
            engine_->run(run_of({{seq, static_cast<std::uint32_t>(1 + random() % 8)}})) ? 1 : 0;
    }
    engine_->check();
  }
  EXPECT_GT(advanced, 100);
  EXPECT_GT(saved, 50);
  EXPECT_GT(restored, 4);
}

}  // namespace
}  // namespace lares::engine
