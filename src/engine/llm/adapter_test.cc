// One file's weights, with and without a LoRA adapter, side by side in one engine.
#include "engine/llm/adapter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/test_folder.h"
#include "engine/llm/llm_engine.h"
#include "engine/llm/probe.h"
#include "engine/llm/tiny_gguf.h"

namespace lares::llm {
namespace {

const std::string kStarter = LARES_SOURCE_DIR "/models/starter/chat/starter-chat-q8_0.gguf";
constexpr ModelId kPlain{0}, kAdapted{1};

// Noise of rank 4 for the queries of the starter model's first two layers.
std::string write_adapter(const std::string& name, const std::string& architecture) {
  constexpr std::int64_t kWide = 256, kRank = 4;
  TinyGguf file(kStarter, architecture, false);
  gguf_set_val_str(file.file(), "general.type", "adapter");
  gguf_set_val_str(file.file(), "adapter.type", "lora");
  gguf_set_val_f32(file.file(), "adapter.lora.alpha", 4);
  for (int i = 0; i < 2; ++i) {
    file.layer_tensor(i, "attn_q.weight.lora_a", {kWide, kRank});
    file.layer_tensor(i, "attn_q.weight.lora_b", {kRank, kWide});
  }
  const std::string path = test_file(name);
  file.write(path);
  return path;
}

class Adapters : public testing::Test {
 protected:
  void SetUp() override {
    LlmOptions options;
    options.threads = 1;
    auto created = LlmEngine::create(options);
    ASSERT_TRUE(created) << created.error().message;
    engine_ = std::move(*created);
  }

  Result<engine::Loaded> load(ModelId model, const std::string& adapter, double scale = 3) {
    engine::LoadSpec spec;
    spec.model = model;
    spec.path = kStarter;
    spec.adapter = adapter;
    spec.adapter_scale = scale;
    spec.sequences = 2;
    spec.pool_tokens = 512;
    spec.batch_tokens = 64;
    return engine_->load(spec);
  }

  // Twenty tokens behind a fixed prompt, the best one each time.
  std::vector<std::int32_t> text_of(ModelId model) {
    engine::Open open;
    open.model = model;
    for (std::int32_t i = 0; i < 30; ++i) open.tokens.push_back(300 + i * 37 % 3000);
    open.sampling.temperature = 0;
    open.sampling.ignore_eos = true;
    EXPECT_TRUE(engine_->open(open));
    std::vector<std::int32_t> made;
    while (made.size() < 20) {
      const auto ran = engine_->run({.run = RunId{1}, .model = model, .items = {{SeqId{0}, 64}}});
      EXPECT_TRUE(ran) << ran.error().message;
      if (!ran) break;
      made.push_back(ran->items[0].token);
    }
    engine_->drop(model, SeqId{0});
    return made;
  }

  std::unique_ptr<LlmEngine> engine_;
};

TEST_F(Adapters, ChangeTheirOwnContextAndNoOther) {
  const auto base = load(kPlain, "");
  ASSERT_TRUE(base);
  const auto plain = text_of(kPlain);
  const auto adapted = load(kAdapted, write_adapter("queries.gguf", "qwen3"));
  ASSERT_TRUE(adapted) << adapted.error().message;
  EXPECT_GE(adapted->compute.count, base->compute.count + 4 * 256 * 4 * 4) << "F32, four matrices";
  const auto other = text_of(kAdapted);
  EXPECT_NE(other, plain);
  EXPECT_EQ(text_of(kPlain), plain);
  EXPECT_EQ(text_of(kAdapted), other);
  // The base may leave first: the weights stay for the other.
  ASSERT_TRUE(engine_->unload(kPlain));
  EXPECT_EQ(text_of(kAdapted), other);
  ASSERT_TRUE(engine_->unload(kAdapted));
  ASSERT_TRUE(load(kPlain, ""));
  EXPECT_EQ(text_of(kPlain), plain);
}

TEST_F(Adapters, AreNoModels) {
  const auto probed = probe_model(write_adapter("no_model.gguf", "qwen3"));
  ASSERT_FALSE(probed);
  EXPECT_NE(probed.error().message.find("as `adapter` beside"), std::string::npos)
      << probed.error().message;
}

TEST_F(Adapters, OfNothingChangeNothing) {
  ASSERT_TRUE(load(kPlain, ""));
  ASSERT_TRUE(load(kAdapted, write_adapter("nothing.gguf", "qwen3"), 0));
  EXPECT_EQ(text_of(kAdapted), text_of(kPlain));
}

TEST_F(Adapters, ThatDoNotFitAreRefusedByName) {
  const auto missing = load(kAdapted, "/nowhere/tone.gguf");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::NotFound);
  EXPECT_NE(missing.error().message.find("/nowhere/tone.gguf"), std::string::npos);
  const auto foreign = load(kAdapted, write_adapter("foreign.gguf", "llama"));
  ASSERT_FALSE(foreign);
  EXPECT_NE(foreign.error().message.find("foreign.gguf"), std::string::npos);
  EXPECT_NE(foreign.error().message.find("arch"), std::string::npos) << foreign.error().message;
  const auto model = load(kAdapted, kStarter);  // A model is no adapter.
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("adapter"), std::string::npos);
  ASSERT_TRUE(load(kAdapted, ""));  // Nothing of it stays.
}

}  // namespace
}  // namespace lares::llm
