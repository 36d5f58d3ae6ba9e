// LlmEngine on the starter model: what a device worker relies on.
#include "engine/llm/llm_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <llama-cpp.h>

namespace lares::llm {
namespace {

using engine::ItemResult;
using engine::ItemState;
using engine::Open;
using engine::Ran;
using engine::RunItem;

constexpr ModelId kModel{7};
const std::string kPath = LARES_SOURCE_DIR "/models/starter/chat/starter-chat-q8_0.gguf";

// The tokenizer belongs to the text worker; a test may borrow it.
class Words {
 public:
  static Words& get() {
    static Words words;
    return words;
  }
  std::vector<std::int32_t> tokens(const std::string& text) const {
    std::vector<std::int32_t> out(text.size() + 8);
    out.resize(static_cast<std::size_t>(llama_tokenize(vocab(), text.data(),
                                                       static_cast<int>(text.size()), out.data(),
                                                       static_cast<int>(out.size()), false, true)));
    return out;
  }
  std::string text(const std::vector<std::int32_t>& tokens) const {
    std::string out(tokens.size() * 32 + 32, '\0');
    out.resize(static_cast<std::size_t>(
        llama_detokenize(vocab(), tokens.data(), static_cast<int>(tokens.size()), out.data(),
                         static_cast<int>(out.size()), false, false)));
    return out;
  }

 private:
  Words() {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    model_.reset(llama_model_load_from_file(kPath.c_str(), params));
  }
  [[nodiscard]] const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }
  llama_model_ptr model_;
};

std::vector<std::int32_t> chat(const std::string& question) {
  return Words::get().tokens("<|im_start|>user\n" + question +
                             "<|im_end|>\n<|im_start|>assistant\n");
}

engine::Sampling greedy() {
  engine::Sampling sampling;
  sampling.temperature = 0;
  return sampling;
}

class LlmEngineTest : public testing::Test {
 protected:
  void SetUp() override { start({}); }

  void start(const engine::LoadSpec& wish) {
    LlmOptions options;
    options.threads = 1;  // Spinning threads are slow beside other work; one test uses two.
    options.give_way = false;
    auto created = LlmEngine::create(options);
    ASSERT_TRUE(created) << created.error().message;
    engine_ = std::move(*created);
    engine::LoadSpec spec = wish;
    spec.model = kModel;
    spec.path = kPath;
    if (spec.pool_tokens == 0) spec.pool_tokens = 8192;
    if (spec.sequences == 0) spec.sequences = 64;
    spec.outputs = spec.sequences;
    auto loaded = engine_->load(spec);
    ASSERT_TRUE(loaded) << loaded.error().message;
    loaded_ = *loaded;
  }

  void open(std::uint32_t seq, const std::vector<std::int32_t>& tokens,
            const engine::Sampling& sampling = greedy()) {
    Open open = open_of(seq, tokens);
    open.sampling = sampling;
    const auto done = engine_->open(open);
    ASSERT_TRUE(done) << done.error().message;
  }

  static Open open_of(std::uint32_t seq, const std::vector<std::int32_t>& prompt) {
    Open open;
    open.model = kModel;
    open.seq = SeqId{seq};
    open.tokens = prompt;
    open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    open.sampling = greedy();
    return open;
  }

  static Open open_again(std::uint32_t seq, const std::vector<std::int32_t>& prompt,
                         const std::vector<ItemResult>& made) {
    Open open = open_of(seq, prompt);
    for (const ItemResult& item : made) open.tokens.push_back(item.token);
    return open;
  }

  Result<Ran> run(std::vector<RunItem> items) {
    engine::Run run;
    run.model = kModel;
    run.run = RunId{++runs_};
    run.items = std::move(items);
    return engine_->run(run);
  }

  // Runs one sequence alone, `chunk` tokens a step, until it ends or has made `most` tokens.
  std::vector<ItemResult> generate(std::uint32_t seq, std::size_t most, std::uint32_t chunk = 512) {
    std::vector<ItemResult> made;
    while (made.size() < most) {
      const auto ran = run({{SeqId{seq}, chunk}});
      EXPECT_TRUE(ran) << ran.error().message;
      if (!ran) break;
      const ItemResult& item = ran->items.at(0);
      if (item.state == ItemState::Sampled) made.push_back(item);
      if (item.state == ItemState::Ended || item.state == ItemState::Skipped) break;
    }
    return made;
  }

  static std::vector<std::int32_t> tokens_of(const std::vector<ItemResult>& made) {
    std::vector<std::int32_t> tokens;
    for (const ItemResult& item : made) tokens.push_back(item.token);
    return tokens;
  }

  // Equal, or different from the first near tie on: kernels round differently for different batch
  // shapes, and two scores within 0.1 may then change places (DESIGN.md 12).
  static void expect_same_text(const std::vector<ItemResult>& a, const std::vector<ItemResult>& b) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (a[i].token == b[i].token) continue;
      EXPECT_LT(a[i].best[0] - a[i].best[1], 0.1F)
          << "token " << i << " differs without a near tie";
      return;
    }
    EXPECT_EQ(a.size(), b.size());
  }

  std::unique_ptr<LlmEngine> engine_;
  engine::Loaded loaded_;
  std::uint64_t runs_ = 0;
};

TEST_F(LlmEngineTest, LoadTellsWhatItLoaded) {
  EXPECT_EQ(loaded_.model, kModel);
  EXPECT_EQ(loaded_.info.architecture, "qwen3");
  EXPECT_EQ(loaded_.info.context, 2048U);
  EXPECT_EQ(loaded_.context, 2048U);
  EXPECT_EQ(loaded_.pool_tokens, 8192U);
  // 8 layers, 2 heads of 64, keys and values, 2 bytes each.
  EXPECT_EQ(loaded_.info.kv_per_token.count, 8 * 2 * 64 * 2 * 2);
  EXPECT_EQ(loaded_.kv.count, 8192 * loaded_.info.kv_per_token.count);
  EXPECT_GT(loaded_.weights.count, 5'000'000);
  EXPECT_GT(loaded_.compute.count, 0);
  EXPECT_GT(loaded_.took.count(), 0);
  EXPECT_TRUE(loaded_.info.can.cut_anywhere);
  EXPECT_TRUE(loaded_.info.can.has_chat_template);
  EXPECT_TRUE(loaded_.info.can.generates);
  EXPECT_FALSE(loaded_.info.can.recurrent);
}

TEST_F(LlmEngineTest, GreedyTextIsStableAndSensible) {
  open(0, chat("What is the capital of France?"));
  const auto first = generate(0, 60);
  EXPECT_NE(Words::get().text(tokens_of(first)).find("Paris"), std::string::npos)
      << Words::get().text(tokens_of(first));
  open(1, chat("What is the capital of France?"));
  expect_same_text(first, generate(1, 60));
}

TEST_F(LlmEngineTest, SeedDecidesTheText) {
  const auto prompt = chat("Tell me a bedtime story.");
  engine::Sampling sampling;
  sampling.seed = 1;
  open(0, prompt, sampling);
  open(1, prompt, sampling);
  sampling.seed = 2;
  open(2, prompt, sampling);
  const auto a = tokens_of(generate(0, 40));
  EXPECT_EQ(a, tokens_of(generate(1, 40)));
  EXPECT_NE(a, tokens_of(generate(2, 40)));
}

TEST_F(LlmEngineTest, NeighboursDoNotChangeTheText) {
  const auto prompt = chat("How do I descale a kettle?");
  open(63, prompt);
  const auto alone = generate(63, 40);
  ASSERT_GT(alone.size(), 5U);
  std::vector<RunItem> items;
  for (std::uint32_t i = 0; i < 15; ++i) {
    open(i, chat("Question number " + std::to_string(i) + ": what shall we cook tonight?"));
    items.push_back({SeqId{i}, 16});
  }
  open(20, prompt);
  items.insert(items.begin() + 7, {SeqId{20}, 512});
  std::vector<ItemResult> among;
  while (among.size() < 40) {
    const auto ran = run(items);
    ASSERT_TRUE(ran) << ran.error().message;
    const ItemResult& item = ran->items.at(7);
    ASSERT_EQ(item.seq, SeqId{20});
    if (item.state != ItemState::Sampled) break;
    among.push_back(item);
  }
  expect_same_text(alone, among);
}

TEST_F(LlmEngineTest, ChunksDoNotChangeTheText) {
  const auto prompt = chat("Summarise: milk, eggs, bread, and a long list of things to buy.");
  open(0, prompt);
  const auto whole = generate(0, 30);
  for (const std::uint32_t chunk : {1U, 3U, 16U}) {
    open(chunk, prompt);
    const auto first = run({{SeqId{chunk}, chunk}});
    ASSERT_TRUE(first);
    EXPECT_EQ(first->items[0].state, ItemState::Advanced);
    EXPECT_EQ(first->items[0].tokens, chunk);
    expect_same_text(whole, generate(chunk, 30, chunk));
  }
}

TEST_F(LlmEngineTest, OpenedAgainWithItsTokensItGoesOn) {
  // What the core does after a worker has crashed. Sampled text, so that the noise is part of it.
  const auto prompt = chat("Tell me a joke.");
  engine::Sampling sampling;
  sampling.seed = 77;
  sampling.frequency_penalty = 0.3F;
  open(0, prompt, sampling);
  const auto whole = generate(0, 30);
  ASSERT_GT(whole.size(), 12U);
  start({});
  Open again;
  again.model = kModel;
  again.seq = SeqId{5};
  again.tokens = prompt;
  again.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  for (std::size_t i = 0; i < 10; ++i) again.tokens.push_back(whole[i].token);
  again.sampling = sampling;
  ASSERT_TRUE(engine_->open(again));
  const std::vector<ItemResult> rest(whole.begin() + 10, whole.end());
  expect_same_text(rest, generate(5, rest.size()));
}

TEST_F(LlmEngineTest, SharedPrefixEqualsComputingItAgain) {
  const auto prompt = chat("What is the capital of Spain?");
  open(0, prompt);
  const auto whole = generate(0, 20);
  Open share = open_of(1, prompt);
  share.from = SeqId{0};
  share.from_tokens = static_cast<std::uint32_t>(prompt.size()) - 1;
  ASSERT_TRUE(engine_->open(share));
  engine_->drop(kModel, SeqId{0});  // The shared cells must survive their first owner.
  const auto ran = run({{SeqId{1}, 512}});
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->items[0].tokens, 1U);
  EXPECT_EQ(ran->items[0].token, whole[0].token);
  const std::vector<ItemResult> rest(whole.begin() + 1, whole.end());
  expect_same_text(rest, generate(1, rest.size()));
}

TEST_F(LlmEngineTest, SharingIsChecked) {
  const auto prompt = chat("What is the capital of Spain?");
  open(0, prompt);
  Open share = open_of(1, prompt);
  share.from = SeqId{0};
  share.from_tokens = 4;
  EXPECT_EQ(engine_->open(share).error().code, Code::Invalid);  // Not computed yet.
  generate(0, 1);
  share.tokens[2] = 5;
  EXPECT_EQ(engine_->open(share).error().code, Code::Invalid);  // Other tokens.
  share.tokens = prompt;
  share.from_tokens = static_cast<std::uint32_t>(prompt.size());
  EXPECT_EQ(engine_->open(share).error().code, Code::Invalid);  // Nothing left to compute.
  share.from_tokens = 4;
  share.from = SeqId{9};
  EXPECT_EQ(engine_->open(share).error().code, Code::NotFound);
}

TEST_F(LlmEngineTest, SavedAndRestoredItGoesOn) {
  const auto prompt = chat("Tell me a bedtime story.");
  open(0, prompt);
  const auto whole = generate(0, 30);
  open(1, prompt);
  auto made = generate(1, 10);
  const auto computed = static_cast<std::uint32_t>(prompt.size()) + 9;
  const engine::Save all{kModel, SeqId{1}, StateId{7}, 0, computed};
  const auto saved = engine_->save(all);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_GT(saved->bytes.count, computed * loaded_.info.kv_per_token.count - 1);
  EXPECT_EQ(engine_->memory().host_saved.count, saved->bytes.count);
  EXPECT_EQ(engine_->save(all).error().code, Code::Conflict);
  engine_->drop(kModel, SeqId{1});
  open(2, chat("Somebody else uses the cells meanwhile."));
  generate(2, 5);
  ASSERT_TRUE(engine_->open(open_again(1, prompt, made)));
  const engine::Restore back{kModel, SeqId{1}, StateId{7}, computed};
  const auto restored = engine_->restore(back);
  ASSERT_TRUE(restored) << restored.error().message;
  const auto next = run({{SeqId{1}, 512}});
  EXPECT_EQ(next->items[0].tokens, 1U);  // All others came back.
  made.push_back(next->items[0]);
  engine_->forget(kModel, StateId{7});
  engine_->forget(kModel, StateId{7});
  EXPECT_EQ(engine_->memory().host_saved.count, 0);
  for (const ItemResult& item : generate(1, 19)) made.push_back(item);
  expect_same_text(whole, made);
  EXPECT_EQ(engine_->restore(back).error().code, Code::NotFound);
}

// Only what is not shared is copied; it comes back behind what is shared still, byte for byte.
TEST_F(LlmEngineTest, TheTailOfASequenceIsSavedAlone) {
  const auto prompt = chat("Tell me a bedtime story.");
  constexpr std::uint32_t kFront = 8;
  const auto length = static_cast<std::uint32_t>(prompt.size());
  open(0, prompt);
  const auto whole = generate(0, 30);
  Open share = open_of(1, prompt);
  share.from = SeqId{0};
  share.from_tokens = kFront;
  ASSERT_TRUE(engine_->open(share));
  auto made = generate(1, 10);
  const std::uint32_t computed = length + 9;
  const auto tail = engine_->save({kModel, SeqId{1}, StateId{1}, kFront, computed - kFront});
  ASSERT_TRUE(tail) << tail.error().message;
  const auto before = engine_->save({kModel, SeqId{1}, StateId{2}, 0, computed});
  ASSERT_TRUE(before);
  EXPECT_LT(tail->bytes.count, before->bytes.count);
  engine_->drop(kModel, SeqId{1});

  Open again = open_again(1, prompt, made);
  again.from = SeqId{0};
  again.from_tokens = kFront;
  ASSERT_TRUE(engine_->open(again));
  const auto restored = engine_->restore({kModel, SeqId{1}, StateId{1}, computed});
  ASSERT_TRUE(restored) << restored.error().message;
  const std::uint32_t shared_once = engine_->memory().models.at(0).used_tokens;
  EXPECT_EQ(shared_once, length + 29 + computed);
  // A part of a state does, too.
  Open part = again;
  part.seq = SeqId{2};
  ASSERT_TRUE(engine_->open(part));
  ASSERT_TRUE(engine_->restore({kModel, SeqId{2}, StateId{1}, computed - 5}));
  EXPECT_EQ(run({{SeqId{2}, 512}})->items[0].tokens, 6U);
  const auto next = run({{SeqId{1}, 512}});
  EXPECT_EQ(next->items[0].tokens, 1U);
  made.push_back(next->items[0]);
  for (const ItemResult& item : generate(1, 19)) made.push_back(item);
  expect_same_text(whole, made);

  again.seq = SeqId{3};
  again.from_tokens = kFront - 1;
  ASSERT_TRUE(engine_->open(again));
  const engine::Restore elsewhere{kModel, SeqId{3}, StateId{1}, computed};
  EXPECT_EQ(engine_->restore(elsewhere).error().code, Code::Invalid);  // It begins elsewhere.
  engine_->drop(kModel, SeqId{3});
  again.from_tokens = kFront;
  again.tokens[kFront + 4] += 1;
  ASSERT_TRUE(engine_->open(again));
  EXPECT_EQ(engine_->restore(elsewhere).error().code, Code::Invalid);  // Other tokens.
  EXPECT_EQ(engine_->save({kModel, SeqId{0}, StateId{9}, 0, 5000}).error().code, Code::Invalid);
  EXPECT_EQ(engine_->save({kModel, SeqId{9}, StateId{9}, 0, 5}).error().code, Code::NotFound);
}

TEST_F(LlmEngineTest, EndedDroppedAndUnknownSequencesAreSkipped) {
  open(0, chat("What is the capital of France?"));
  ItemState state = ItemState::Sampled;
  std::int32_t last = -1;
  for (int i = 0; i < 200 && state == ItemState::Sampled; ++i) {
    const auto ran = run({{SeqId{0}, 512}});
    ASSERT_TRUE(ran);
    state = ran->items[0].state;
    last = ran->items[0].token;
  }
  EXPECT_EQ(state, ItemState::Ended);
  EXPECT_EQ(Words::get().text({last}), "");  // A control token.
  open(1, chat("Hello"));
  engine_->drop(kModel, SeqId{1});
  engine_->drop(kModel, SeqId{1});
  engine_->drop(ModelId{99}, SeqId{1});
  const auto ran = run({{SeqId{0}, 1}, {SeqId{1}, 4}, {SeqId{40}, 1}, {SeqId{5000}, 1}});
  ASSERT_TRUE(ran);
  for (const ItemResult& item : ran->items) EXPECT_EQ(item.state, ItemState::Skipped);
}

TEST_F(LlmEngineTest, IgnoreEosGoesOnUntilTheContextIsFull) {
  start({.model = {}, .path = {}, .context = 64, .pool_tokens = 256, .sequences = 2});
  engine::Sampling sampling = greedy();
  sampling.ignore_eos = true;
  const auto prompt = chat("Hello");
  open(0, prompt, sampling);
  const auto made = generate(0, 1000);
  EXPECT_EQ(prompt.size() + made.size(), 65U);  // The last one is known but has no place to go.
}

TEST_F(LlmEngineTest, SixtyFourAtOnce) {
  std::vector<RunItem> items;
  for (std::uint32_t i = 0; i < 64; ++i) {
    engine::Sampling sampling;
    sampling.seed = i;
    sampling.ignore_eos = true;
    open(i, chat("Tell me a joke."), sampling);
    items.push_back({SeqId{i}, 8});
  }
  std::vector<int> sampled(64);
  for (int step = 0; step < 12; ++step) {
    const auto ran = run(items);
    ASSERT_TRUE(ran) << ran.error().message;
    ASSERT_EQ(ran->items.size(), 64U);
    for (std::size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(ran->items[i].seq, items[i].seq);
      sampled[i] += ran->items[i].state == ItemState::Sampled ? 1 : 0;
    }
  }
  for (const int n : sampled) EXPECT_GE(n, 8);
  const auto memory = engine_->memory();
  EXPECT_EQ(memory.models.at(0).sequences_open, 64U);
  EXPECT_GT(memory.models.at(0).used_tokens, 64U * 10);
  EXPECT_GT(memory.device_total.count, 0);
}

TEST_F(LlmEngineTest, NoRoomLeavesEverySequenceWhereItWas) {
  start({.model = {}, .path = {}, .context = 0, .pool_tokens = 256, .sequences = 4});
  const std::vector<std::int32_t> words = Words::get().tokens("bread milk eggs butter cheese jam ");
  const auto some = [&](std::size_t n) {
    std::vector<std::int32_t> tokens;
    while (tokens.size() < n) tokens.push_back(words[tokens.size() % words.size()]);
    return tokens;
  };
  open(0, some(150));
  open(1, some(150));
  ASSERT_TRUE(run({{SeqId{0}, 150}}));
  const auto full = run({{SeqId{0}, 1}, {SeqId{1}, 150}});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::Busy);
  EXPECT_EQ(engine_->memory().models.at(0).used_tokens, 150U);
  const auto again =
      run({{SeqId{0}, 1}, {SeqId{1}, 50}});  // What fits is computed as if nothing was.
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->items[0].state, ItemState::Sampled);
  EXPECT_EQ(again->items[1].tokens, 50U);
  engine_->drop(kModel, SeqId{0});
  EXPECT_EQ(run({{SeqId{1}, 100}})->items[0].state, ItemState::Sampled);
}

TEST_F(LlmEngineTest, BadRequestsAreErrors) {
  const auto code = [&](const Open& open) {
    const auto done = engine_->open(open);
    EXPECT_FALSE(done);
    return done ? Code::Io : done.error().code;
  };
  Open open;
  open.model = kModel;
  EXPECT_EQ(code(open), Code::Invalid);  // No tokens.
  open.tokens = {1, 4096};
  EXPECT_EQ(code(open), Code::Invalid);  // Outside the vocabulary of 4,096.
  open.tokens = {-1};
  EXPECT_EQ(code(open), Code::Invalid);
  open.tokens.assign(2049, 5);
  EXPECT_EQ(code(open), Code::Invalid);  // Beyond the context.
  open.tokens = {5};
  open.seq = SeqId{64};
  EXPECT_EQ(code(open), Code::Invalid);
  open.seq = SeqId{0};
  open.model = ModelId{1};
  EXPECT_EQ(code(open), Code::NotFound);
  open.model = kModel;
  ASSERT_TRUE(engine_->open(open));
  EXPECT_EQ(code(open), Code::Conflict);

  EXPECT_EQ(run({{SeqId{0}, 1}, {SeqId{0}, 1}}).error().code, Code::Invalid);
  open.seq = SeqId{1};
  open.tokens.assign(600, 5);
  ASSERT_TRUE(engine_->open(open));
  EXPECT_EQ(run({{SeqId{1}, 600}}).error().code, Code::TooLarge);
  EXPECT_TRUE(run({{SeqId{1}, 512}}));
  EXPECT_TRUE(run({}));
  EXPECT_EQ(engine_->unload(ModelId{1}).error().code, Code::NotFound);
  EXPECT_EQ(engine_->lease({}).error().code, Code::Unsupported);
}

TEST_F(LlmEngineTest, LoadAndUnload) {
  engine::LoadSpec spec;
  spec.model = kModel;
  spec.path = kPath;
  spec.sequences = 1;
  EXPECT_EQ(engine_->load(spec).error().code, Code::Conflict);
  spec.model = ModelId{8};
  spec.sequences = 0;
  EXPECT_EQ(engine_->load(spec).error().code, Code::Invalid);
  spec.sequences = 256;
  EXPECT_EQ(engine_->load(spec).error().code, Code::Invalid);
  spec.sequences = 255;
  spec.pool_tokens = 4'000'000'000;
  EXPECT_EQ(engine_->load(spec).error().code, Code::TooLarge);
  spec.pool_tokens = 0;
  const auto loaded = engine_->load(spec);  // Beside the first; the pool is chosen.
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_GE(loaded->pool_tokens, 2048U);
  EXPECT_LE(loaded->pool_tokens, 32768U);
  Open last;
  last.model = ModelId{8};
  last.seq = SeqId{254};
  last.tokens = {5, 6, 7};
  ASSERT_TRUE(engine_->open(last));
  engine::Run run;
  run.model = ModelId{8};
  run.items = {{SeqId{254}, 3}};
  EXPECT_TRUE(engine_->run(run));
  EXPECT_EQ(engine_->memory().models.size(), 2U);
  ASSERT_TRUE(engine_->unload(ModelId{8}));
  EXPECT_EQ(engine_->run(run).error().code, Code::NotFound);
}

TEST_F(LlmEngineTest, ModelsLoadBesideRunningOnes) {
  // One thread loads and unloads its models while this one's stream goes on, with the same text.
  const auto prompt = chat("Tell me a bedtime story.");
  open(0, prompt);
  const auto alone = generate(0, 60);
  std::atomic<int> loads{0};
  std::thread other([&] {
    for (std::uint32_t i = 1; i <= 3; ++i) {
      engine::LoadSpec spec;
      spec.model = ModelId{100 + i};
      spec.path = i == 2 ? "/nowhere.gguf" : kPath;
      spec.sequences = 2;
      spec.pool_tokens = 1024;
      loads += engine_->load(spec) ? 1 : 0;
    }
  });
  open(1, prompt);
  const auto beside = generate(1, 60);
  other.join();
  EXPECT_EQ(loads, 2);
  expect_same_text(alone, beside);
  EXPECT_EQ(engine_->memory().models.size(), 3U);
  EXPECT_TRUE(engine_->unload(ModelId{101}));
}

TEST_F(LlmEngineTest, SeveralThreadsComputeTheSameText) {
  const auto prompt = chat("What is the capital of France?");
  open(0, prompt);
  const auto one = generate(0, 12);
  LlmOptions options;
  options.threads = 2;
  auto created = LlmEngine::create(options);
  ASSERT_TRUE(created);
  engine_ = std::move(*created);
  engine::LoadSpec spec;
  spec.model = kModel;
  spec.path = kPath;
  spec.sequences = 2;
  spec.pool_tokens = 1024;
  ASSERT_TRUE(engine_->load(spec));
  open(0, prompt);
  expect_same_text(one, generate(0, 12));
  engine_->set_threads(1);
  open(1, prompt);
  const auto ran = run({{SeqId{1}, 512}});
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->threads, 1U);
}

TEST_F(LlmEngineTest, LogprobsAndSpanAreReported) {
  engine::Sampling sampling = greedy();
  sampling.want_logprob = true;
  sampling.logprobs = 3;
  open(0, chat("What is the capital of France?"), sampling);
  const auto ran = run({{SeqId{0}, 512}});
  ASSERT_TRUE(ran);
  const ItemResult& item = ran->items[0];
  ASSERT_EQ(item.top.size(), 3U);
  EXPECT_EQ(item.top[0].token, item.token);
  EXPECT_FLOAT_EQ(item.top[0].logprob, item.logprob);
  EXPECT_LE(item.logprob, 0);
  EXPECT_GE(item.top[1].logprob, item.top[2].logprob);
  EXPECT_NEAR(item.top[0].logprob - item.top[1].logprob, item.best[0] - item.best[1], 1e-3);
  EXPECT_EQ(ran->span_tokens, item.tokens);
  EXPECT_GE(ran->device, ran->sampling);
  EXPECT_EQ(ran->threads, 1U);
}

}  // namespace
}  // namespace lares::llm
