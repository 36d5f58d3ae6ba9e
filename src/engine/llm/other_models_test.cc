// Models whose memory cannot be cut at any position, and models that do not generate.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/test_folder.h"
#include "engine/llm/llm_engine.h"
#include "engine/llm/probe.h"
#include "engine/llm/tiny_gguf.h"

namespace lares::llm {
namespace {

const std::string kStarter = LARES_SOURCE_DIR "/models/starter/chat/starter-chat-q8_0.gguf";

class OtherModels : public testing::Test {
 protected:
  void load(const std::string& path, std::uint32_t pool = 512) {
    LlmOptions options;
    options.threads = 1;
    auto created = LlmEngine::create(options);
    ASSERT_TRUE(created) << created.error().message;
    engine_ = std::move(*created);
    engine::LoadSpec spec;
    spec.path = path;
    spec.sequences = 4;
    spec.pool_tokens = pool;
    spec.batch_tokens = 64;
    const auto loaded = engine_->load(spec);
    ASSERT_TRUE(loaded) << loaded.error().message;
    loaded_ = *loaded;
  }

  Result<> open(std::uint32_t seq, const std::vector<std::int32_t>& tokens) {
    engine::Open open;
    open.seq = SeqId{seq};
    open.tokens = tokens;
    // Drawn, not greedy: noise for weights likes to repeat one token.
    open.sampling.temperature = 4;
    open.sampling.top_k = 0;
    open.sampling.top_p = 1;
    open.sampling.min_p = 0;
    open.sampling.seed = 11;
    open.sampling.ignore_eos = true;
    return engine_->open(open);
  }

  std::vector<std::int32_t> generate(std::uint32_t seq, std::size_t most, std::uint32_t chunk) {
    std::vector<std::int32_t> made;
    while (made.size() < most) {
      engine::Run run;
      run.items = {{SeqId{seq}, chunk}};
      const auto ran = engine_->run(run);
      EXPECT_TRUE(ran) << ran.error().message;
      if (!ran || ran->items[0].state == engine::ItemState::Skipped) break;
      if (ran->items[0].state == engine::ItemState::Sampled) made.push_back(ran->items[0].token);
    }
    return made;
  }

  static std::vector<std::int32_t> prompt(std::size_t n) {
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < n; ++i) tokens.push_back(static_cast<std::int32_t>(i * 37 % 4000));
    return tokens;
  }

  // What a scheduler may do with any model: chunks, neighbours, save and restore, starting again.
  void expect_the_same_text_every_way() {
    ASSERT_TRUE(open(0, prompt(50)));
    const auto whole = generate(0, 20, 64);
    ASSERT_EQ(whole.size(), 20U);
    EXPECT_GT(std::set<std::int32_t>(whole.begin(), whole.end()).size(), 3U);
    ASSERT_TRUE(open(1, prompt(50)));
    EXPECT_EQ(generate(1, 20, 7), whole);

    ASSERT_TRUE(open(2, prompt(50)));
    auto made = generate(2, 5, 64);
    const engine::Save save{{}, SeqId{2}, StateId{1}, 0, 54};
    ASSERT_TRUE(engine_->save(save));
    engine_->drop({}, SeqId{2});
    ASSERT_TRUE(open(3, prompt(33)));
    generate(3, 3, 64);
    auto known = prompt(50);
    known.insert(known.end(), made.begin(), made.end());
    ASSERT_TRUE(open(2, known));
    const auto restored = engine_->restore({{}, SeqId{2}, StateId{1}, 54});
    ASSERT_TRUE(restored) << restored.error().message;
    const auto ran = engine_->run({.run = RunId{1}, .model = {}, .items = {{SeqId{2}, 64}}});
    ASSERT_TRUE(ran);
    EXPECT_EQ(ran->items[0].tokens, 1U);  // The others came from the state.
    made.push_back(ran->items[0].token);
    for (const auto token : generate(2, 14, 64)) made.push_back(token);
    EXPECT_EQ(made, whole);

    engine_->drop({}, SeqId{0});
    auto again = prompt(50);
    again.insert(again.end(), whole.begin(), whole.begin() + 8);
    ASSERT_TRUE(open(0, again));
    EXPECT_EQ(generate(0, 12, 64), std::vector<std::int32_t>(whole.begin() + 8, whole.end()));
  }

  std::unique_ptr<LlmEngine> engine_;
  engine::Loaded loaded_;
};

TEST_F(OtherModels, Recurrent) {
  const std::string path = test_file("tiny_mamba.gguf");
  write_tiny_mamba(kStarter, path);
  const auto info = probe_model(path);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_TRUE(info->can.recurrent);
  EXPECT_FALSE(info->can.cut_anywhere);
  EXPECT_TRUE(info->can.generates);
  load(path);
  expect_the_same_text_every_way();
  engine::Open share;
  share.seq = SeqId{1};
  engine_->drop({}, SeqId{1});
  share.tokens = prompt(50);
  share.from = SeqId{0};
  share.from_tokens = 10;
  EXPECT_EQ(engine_->open(share).error().code, Code::Unsupported);
}

TEST_F(OtherModels, SlidingWindow) {
  const std::string path = test_file("tiny_gemma2.gguf");
  write_tiny_gemma2(kStarter, path, 16);
  const auto info = probe_model(path);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_TRUE(info->can.sliding_window);
  EXPECT_EQ(info->can.window, 16U);
  EXPECT_FALSE(info->can.cut_anywhere);
  EXPECT_FALSE(info->can.recurrent);
  load(path);
  expect_the_same_text_every_way();
}

TEST_F(OtherModels, SlidingWindowWithoutRoom) {
  // A failed run must leave the window's cells as they were, too.
  const std::string path = test_file("tiny_gemma2.gguf");
  write_tiny_gemma2(kStarter, path, 16);
  load(path, 256);
  ASSERT_TRUE(open(0, prompt(120)));
  ASSERT_TRUE(open(1, prompt(120)));
  ASSERT_TRUE(open(2, prompt(60)));
  const auto first = generate(0, 1, 64);
  generate(1, 1, 64);
  engine::Run run;
  run.items = {{SeqId{0}, 1}, {SeqId{2}, 60}};
  const auto full = engine_->run(run);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::Busy) << full.error().message;
  const auto rest = generate(0, 4, 1);
  engine_->drop({}, SeqId{1});
  engine_->drop({}, SeqId{2});
  ASSERT_TRUE(open(3, prompt(120)));
  auto undisturbed = generate(3, 5, 64);
  EXPECT_EQ(undisturbed.front(), first.front());
  EXPECT_EQ(std::vector<std::int32_t>(undisturbed.begin() + 1, undisturbed.end()), rest);
}

TEST_F(OtherModels, EmbeddingModelsAreNotRun) {
  const std::string path = test_file("tiny_embed.gguf");
  write_tiny_gemma2(kStarter, path, 16, 1);
  const auto info = probe_model(path);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_TRUE(info->can.embeds);
  EXPECT_FALSE(info->can.generates);
  auto engine = LlmEngine::create({});
  ASSERT_TRUE(engine);
  engine::LoadSpec spec;
  spec.path = path;
  spec.sequences = 1;
  EXPECT_EQ((*engine)->load(spec).error().code, Code::Unsupported);
}

}  // namespace
}  // namespace lares::llm
