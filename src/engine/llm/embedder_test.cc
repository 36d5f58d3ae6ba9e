// Embeddings by LlmEngine: of the starter chat model, of a tiny BERT, of a tiny Gemma.
#include "engine/llm/embedder.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "core/test_folder.h"
#include "engine/embedding.h"
#include "engine/llm/llm_engine.h"
#include "engine/llm/probe.h"
#include "engine/llm/tiny_gguf.h"

namespace lares::llm {
namespace {

using engine::ItemState;
using Vector = std::vector<float>;

const std::string kStarter = LARES_SOURCE_DIR "/models/starter/chat/starter-chat-q8_0.gguf";
constexpr ModelId kModel{3};

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

std::vector<std::int32_t> tokens(std::size_t count, std::int32_t seed = 1) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < count; ++i) {
    seed = (seed * 1103 + 12345) % 4000;
    out.push_back(seed + 90);
  }
  return out;
}

class EmbedderTest : public ::testing::Test {
 protected:
  void load(const std::string& path, std::uint32_t context = 0) {
    auto engine = LlmEngine::create({.threads = 1, .give_way = false, .library_folder = ""});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
    load_as(path, kModel, true, context);
  }
  void load_as(const std::string& path, ModelId model, bool embeds, std::uint32_t context = 0) {
    engine::LoadSpec spec;
    spec.model = model;
    spec.path = path;
    spec.context = context;
    spec.pool_tokens = 2048;
    spec.sequences = 8;
    spec.embeds = embeds;
    auto loaded = engine_->load(spec);
    ASSERT_TRUE(loaded) << loaded.error().message;
    loaded_ = *loaded;
  }
  void open(std::uint32_t seq, std::vector<std::int32_t> text) {
    engine::Open open;
    open.model = kModel;
    open.seq = SeqId{seq};
    open.tokens = std::move(text);
    const auto opened = engine_->open(open);
    ASSERT_TRUE(opened) << opened.error().message;
  }
  std::vector<engine::ItemResult> run(std::vector<engine::RunItem> items) {
    engine::Run run;
    run.model = kModel;
    run.items = std::move(items);
    auto ran = engine_->run(run);
    EXPECT_TRUE(ran) << ran.error().message;
    return ran ? std::move(ran->items) : std::vector<engine::ItemResult>(run.items.size());
  }
  // The text alone, in one chunk after the other.
  Vector embed(const std::vector<std::int32_t>& text, std::uint32_t chunk) {
    open(7, text);
    Vector out;
    for (std::size_t done = 0; done < text.size(); done += chunk) {
      const auto results = run({{SeqId{7}, chunk}});
      const bool last = done + chunk >= text.size();
      EXPECT_EQ(results[0].state, last ? ItemState::Embedded : ItemState::Advanced);
      EXPECT_EQ(results[0].embedding.empty(), !last);
      out = results[0].embedding;
    }
    engine_->drop(kModel, SeqId{7});
    return out;
  }

  std::unique_ptr<LlmEngine> engine_;
  engine::Loaded loaded_;
};

TEST_F(EmbedderTest, AChatModelsVectorDoesNotDependOnHowItIsRead) {
  load(kStarter);
  const auto text = tokens(200);
  const Vector whole = embed(text, 100);
  ASSERT_EQ(whole.size(), loaded_.info.embedding);
  EXPECT_NEAR(dot(whole, whole), 1, 1e-5);
  EXPECT_GT(dot(whole, embed(text, 17)), 0.999);
  EXPECT_LT(dot(whole, embed(tokens(200, 77), 100)), 0.999);
  // Beside others, which begin and end at other times.
  open(0, text);
  open(1, tokens(30, 5));
  open(2, tokens(3, 6));
  run({{SeqId{0}, 60}, {SeqId{1}, 30}, {SeqId{2}, 2}});
  const auto then = run({{SeqId{2}, 1}, {SeqId{0}, 100}});
  EXPECT_EQ(then[0].state, ItemState::Embedded);
  const auto last = run({{SeqId{0}, 40}, {SeqId{1}, 1}});
  EXPECT_GT(dot(whole, last[0].embedding), 0.999);
  EXPECT_EQ(last[1].state, ItemState::Skipped);
}

TEST_F(EmbedderTest, SharesItsWeightsWithTheChat) {
  load(kStarter);
  load_as(kStarter, ModelId{4}, false);
  const Vector before = embed(tokens(40), 40);
  engine::Open chat;
  chat.model = ModelId{4};
  chat.tokens = tokens(20);
  ASSERT_TRUE(engine_->open(chat));
  engine::Run run;
  run.model = ModelId{4};
  run.items = {{SeqId{0}, 20}};
  ASSERT_TRUE(engine_->run(run));
  ASSERT_TRUE(engine_->unload(ModelId{4}));
  EXPECT_EQ(embed(tokens(40), 40), before);
  EXPECT_EQ(engine_->save({kModel, SeqId{0}, StateId{1}, 0, 1}).error().code, Code::Unsupported);
}

TEST_F(EmbedderTest, AnotherFileAtTheSamePathIsAnotherModel) {
  const std::string path = test_file("replaced.gguf");
  std::filesystem::copy_file(kStarter, path);
  load(path);
  const std::string architecture = loaded_.info.architecture;
  write_tiny_mamba(kStarter, path + ".new");
  std::filesystem::rename(path + ".new", path);
  load_as(path, ModelId{4}, true);
  EXPECT_EQ(loaded_.info.architecture, "mamba");
  EXPECT_NE(architecture, "mamba");
}

TEST_F(EmbedderTest, BertReadsAWholeTextHoweverItIsCut) {
  for (const std::uint32_t pooling : {1U, 2U, 3U}) {
    const std::string path = test_file("tiny_bert.gguf");
    write_tiny_bert(kStarter, path, pooling);
    const auto info = probe_model(path);
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_TRUE(info->can.embeds);
    EXPECT_TRUE(info->can.whole_text);
    EXPECT_FALSE(info->can.generates);
    EXPECT_EQ(engine::embed_context(*info), 256U);
    load(path);
    EXPECT_EQ(loaded_.context, 256U);
    const auto text = tokens(120);
    const Vector whole = embed(text, 120);
    EXPECT_NEAR(dot(whole, whole), 1, 1e-5);
    EXPECT_GT(dot(whole, embed(text, 7)), 0.99999);
    // More than one micro-batch of whole texts in one run.
    for (std::uint32_t i = 0; i < 5; ++i) open(i, i == 3 ? text : tokens(100 + i, 7));
    const auto together = run({{SeqId{0}, 100}, {SeqId{1}, 101}, {SeqId{2}, 90}, {SeqId{3}, 120}});
    EXPECT_GT(dot(whole, together[3].embedding), 0.99999);
    EXPECT_EQ(together[2].state, ItemState::Advanced);
    engine::Open longer;
    longer.model = kModel;
    longer.seq = SeqId{6};
    longer.tokens = tokens(257);
    EXPECT_EQ(engine_->open(longer).error().code, Code::Invalid);
  }
}

TEST_F(EmbedderTest, ADecoderThatIsMeantForEmbeddings) {
  const std::string path = test_file("tiny_embed_gemma.gguf");
  write_tiny_gemma2(kStarter, path, 16, 3);
  load(path);
  const auto text = tokens(100);
  EXPECT_GT(dot(embed(text, 100), embed(text, 9)), 0.999);
}

TEST_F(EmbedderTest, WhatMakesNoSense) {
  load(kStarter, 64);
  engine::Open open;
  open.model = kModel;
  open.tokens = tokens(65);
  EXPECT_EQ(engine_->open(open).error().code, Code::Invalid);
  open.tokens = {1 << 30};
  EXPECT_EQ(engine_->open(open).error().code, Code::Invalid);
  open.tokens = tokens(10);
  open.seq = SeqId{8};
  EXPECT_EQ(engine_->open(open).error().code, Code::Invalid);
  open.seq = SeqId{0};
  ASSERT_TRUE(engine_->open(open));
  EXPECT_EQ(engine_->open(open).error().code, Code::Conflict);
  engine::Run twice;
  twice.model = kModel;
  twice.items = {{SeqId{0}, 1}, {SeqId{0}, 1}};
  EXPECT_EQ(engine_->run(twice).error().code, Code::Invalid);
  EXPECT_EQ(run({{SeqId{5}, 1}})[0].state, ItemState::Skipped);
}

}  // namespace
}  // namespace lares::llm
