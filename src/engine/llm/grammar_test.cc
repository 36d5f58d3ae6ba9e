// Grammar on the starter model's vocabulary, and what the engine makes of it.
#include "engine/llm/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/llm/llm_engine.h"

namespace lares::llm {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr ModelId kModel{7};
const std::string kPath = LARES_SOURCE_DIR "/models/starter/chat/starter-chat-q8_0.gguf";

class GrammarTest : public testing::Test {
 protected:
  void SetUp() override {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    model_.reset(llama_model_load_from_file(kPath.c_str(), params));
    ASSERT_TRUE(model_);
    vocab_ = llama_model_get_vocab(model_.get());
  }

  Tokens tokens(const std::string& text) const {
    Tokens out(text.size() + 8);
    out.resize(static_cast<std::size_t>(llama_tokenize(vocab_, text.data(),
                                                       static_cast<int>(text.size()), out.data(),
                                                       static_cast<int>(out.size()), false, true)));
    return out;
  }
  std::string text(const Tokens& tokens) const {
    std::string out(tokens.size() * 32 + 32, '\0');
    out.resize(static_cast<std::size_t>(
        llama_detokenize(vocab_, tokens.data(), static_cast<int>(tokens.size()), out.data(),
                         static_cast<int>(out.size()), false, true)));
    return out;
  }
  std::unique_ptr<Grammar> grammar(const Constraint& constraint, const std::string& made = "") {
    auto created = Grammar::create(vocab_, constraint, tokens(made));
    EXPECT_TRUE(created) << created.error().message;
    return created ? std::move(*created) : nullptr;
  }
  static bool allows(Grammar& grammar, std::int32_t token) {
    Tokens one{token};
    grammar.keep_allowed(one);
    return !one.empty();
  }
  bool allows_text(Grammar& grammar, const std::string& text) const {
    return allows(grammar, tokens(text).front());
  }

  llama_model_ptr model_;
  const llama_vocab* vocab_ = nullptr;
};

Constraint strict(const std::string& grammar) {
  Constraint c;
  c.grammar = grammar;
  return c;
}

Constraint on_call() {
  Constraint c;
  c.grammar = R"(root ::= "<tool_call>" [a-c]+ "</tool_call>")";
  c.lazy = true;
  c.trigger_words = {"<tool_call>"};
  return c;
}

TEST_F(GrammarTest, KeepsWhatMayComeNext) {
  const auto g = grammar(strict(R"(root ::= "{\"on\": " ("true" | "false") "}")"));
  EXPECT_TRUE(g->applies());
  Tokens asked{tokens("Hello").front(), tokens("{").front(), llama_vocab_eos(vocab_)};
  const std::int32_t brace = asked[1];
  g->keep_allowed(asked);
  EXPECT_EQ(asked, Tokens{brace});
  for (const std::int32_t token : tokens(R"({"on": true})")) {
    EXPECT_TRUE(allows(*g, token));
    EXPECT_TRUE(g->accept(token));
  }
  EXPECT_TRUE(allows(*g, llama_vocab_eos(vocab_)));
  EXPECT_FALSE(allows_text(*g, "Hello"));
}

TEST_F(GrammarTest, GoesOnAfterWhatWasMade) {
  const auto g = grammar(strict(R"(root ::= "{\"on\": " ("true" | "false") "}")"), R"({"on": )");
  EXPECT_TRUE(allows_text(*g, "true"));
  EXPECT_FALSE(allows_text(*g, "{"));
}

TEST_F(GrammarTest, ThePromptsEndMayBelongToIt) {
  Constraint c = strict(R"(root ::= "<|im_start|>assistant\n" "yes")");
  c.prefill = tokens("<|im_start|>assistant\n");
  const auto g = grammar(c);
  EXPECT_TRUE(allows_text(*g, "yes"));
  EXPECT_FALSE(allows_text(*g, "no"));
}

TEST_F(GrammarTest, WhatCannotBeReadIsRefused) {
  EXPECT_EQ(Grammar::create(vocab_, strict("root ::= ("), {}).error().code, Code::Invalid);
  EXPECT_EQ(Grammar::create(vocab_, strict("root ::= root \"a\""), {}).error().code, Code::Invalid);
  Constraint c = on_call();
  c.trigger_patterns = {"("};
  EXPECT_EQ(Grammar::create(vocab_, c, {}).error().code, Code::Invalid);
  EXPECT_EQ(Grammar::create(vocab_, strict("root ::= \"a\""), tokens("b")).error().code,
            Code::Invalid);
}

TEST_F(GrammarTest, ATokenThatDoesNotFollowEndsEverything) {
  const auto g = grammar(strict(R"(root ::= "a" "b")"));
  EXPECT_FALSE(g->accept(tokens("x").front()));
  EXPECT_TRUE(g->applies());
  EXPECT_FALSE(allows_text(*g, "a"));
  EXPECT_FALSE(g->accept(tokens("a").front()));
}

TEST_F(GrammarTest, ALazyOneWaitsForItsTrigger) {
  const auto g = grammar(on_call());
  for (const std::int32_t token : tokens("I shall call <tool_")) {
    EXPECT_FALSE(g->applies());
    EXPECT_TRUE(g->accept(token));
  }
  EXPECT_FALSE(g->applies());
  for (const std::int32_t token : tokens("call>a")) EXPECT_TRUE(g->accept(token));
  EXPECT_TRUE(g->applies());
  EXPECT_TRUE(allows_text(*g, "b"));
  EXPECT_FALSE(allows_text(*g, "z"));
  EXPECT_FALSE(allows(*g, llama_vocab_eos(vocab_)));
  for (const std::int32_t token : tokens("</tool_call>")) EXPECT_TRUE(g->accept(token));
  EXPECT_TRUE(allows(*g, llama_vocab_eos(vocab_)));
}

TEST_F(GrammarTest, ATriggerInTheMiddleOfATokenCutsIt) {
  Constraint c = on_call();
  const std::string word = text({tokens(" the").front()});  // One token, blank and all.
  ASSERT_EQ(word, " the");
  c.grammar = R"(root ::= "he" " light" "s"? ".")";
  c.trigger_words = {"he"};
  const auto g = grammar(c, "Put on the");
  EXPECT_TRUE(g->applies());
  EXPECT_TRUE(allows_text(*g, " light"));
  EXPECT_FALSE(allows_text(*g, "he"));
  EXPECT_TRUE(g->accept(tokens(" light").front()));
  EXPECT_TRUE(allows_text(*g, "."));
}

TEST_F(GrammarTest, TriggersAreFoundAfterAnyAmountOfText) {
  std::string story;
  for (int i = 0; i < 400; ++i) story += "The kettle is on. ";
  const auto g = grammar(on_call(), story);
  EXPECT_FALSE(g->applies());
  for (const std::int32_t token : tokens("<tool_call>a")) EXPECT_TRUE(g->accept(token));
  EXPECT_TRUE(g->applies());
  EXPECT_TRUE(allows_text(*g, "b"));
  EXPECT_FALSE(allows_text(*g, "z"));
}

TEST_F(GrammarTest, PatternsBeginAtTheirGroup) {
  Constraint c = on_call();
  c.grammar = R"(root ::= " to=" [a-z]+ ".")";
  c.trigger_words.clear();
  c.trigger_patterns = {"<start>assistant( to=)"};
  const auto g = grammar(c, "Well. <start>assistant to=l");
  EXPECT_TRUE(g->applies());
  EXPECT_TRUE(allows_text(*g, "."));
  EXPECT_FALSE(allows_text(*g, "{"));
  c.trigger_patterns = {"^( to=)"};
  EXPECT_FALSE(grammar(c, "Well. to=l")->applies());
  EXPECT_TRUE(grammar(c, " to=l")->applies());
}

TEST_F(GrammarTest, ThoughtsTriggerNothing) {
  Constraint c = on_call();
  c.think_begin = "<think>";
  c.think_ends = {"</think>"};
  EXPECT_FALSE(grammar(c, "<think>Shall I <tool_call>zz?</think> No. ")->applies());
  EXPECT_TRUE(grammar(c, "<think>Shall I <tool_call>zz?</think><tool_call>a")->applies());
  c.thinking = true;
  EXPECT_FALSE(grammar(c, "Shall I <tool_call>zz?")->applies());
  EXPECT_TRUE(grammar(c, "Shall I?</think><tool_call>a")->applies());
}

// The whole vocabulary, narrowed by first bytes or not, keeps the same tokens.
TEST_F(GrammarTest, AnIndexChangesNothing) {
  const TokenIndex index(vocab_);
  EXPECT_EQ(index.single('{'), tokens("{").front());
  EXPECT_EQ(index.first(llama_vocab_eos(vocab_)), 256);
  const Constraint c = strict("root ::= \"{\" [a-z\\u00e4\\u20ac ]{0,3} \"\\\"\"? \"}\"");
  for (const char* made : {"", "{", "{ab", "{abc", "{ab\"", "{ab\"}"}) {
    Tokens all;  // Three times, so that there are many enough.
    for (int i = 0; i < 3; ++i) {
      for (std::int32_t token = 0; token < llama_vocab_n_tokens(vocab_); ++token) {
        all.push_back(token);
      }
    }
    ASSERT_GT(all.size(), 8192U);
    Tokens narrowed = all;
    grammar(c, made)->keep_allowed(all);
    auto with = Grammar::create(vocab_, c, tokens(made), &index);
    ASSERT_TRUE(with);
    (*with)->keep_allowed(narrowed);
    EXPECT_EQ(narrowed, all) << made;
    EXPECT_FALSE(all.empty()) << made;
  }
}

// --- In the engine ------------------------------------------------------------------------------

class ConstrainedTest : public GrammarTest {
 protected:
  void SetUp() override {
    GrammarTest::SetUp();
    LlmOptions options;
    options.threads = 1;
    options.give_way = false;
    auto created = LlmEngine::create(options);
    ASSERT_TRUE(created) << created.error().message;
    engine_ = std::move(*created);
    engine::LoadSpec spec;
    spec.model = kModel;
    spec.path = kPath;
    spec.pool_tokens = 4096;
    spec.sequences = 8;
    spec.outputs = 8;
    ASSERT_TRUE(engine_->load(spec));
  }

  engine::Open request(std::uint32_t seq, const Constraint& constraint, std::uint64_t seed = 1) {
    engine::Open open;
    open.model = kModel;
    open.seq = SeqId{seq};
    open.tokens = tokens("<|im_start|>user\nIs the light on?<|im_end|>\n<|im_start|>assistant\n");
    open.prompt_tokens = static_cast<std::uint32_t>(open.tokens.size());
    open.sampling.temperature = 1.5F;
    open.sampling.seed = seed;
    open.constraint = constraint;
    return open;
  }

  // Runs the sequences until each has ended or made `most` tokens.
  std::map<std::uint32_t, Tokens> finish(const std::vector<std::uint32_t>& seqs, std::size_t most) {
    std::map<std::uint32_t, Tokens> made;
    std::vector<std::uint32_t> left = seqs;
    while (!left.empty()) {
      engine::Run run;
      run.model = kModel;
      for (const std::uint32_t seq : left) run.items.push_back({SeqId{seq}, 512});
      const auto ran = engine_->run(run);
      EXPECT_TRUE(ran) << ran.error().message;
      if (!ran) break;
      for (const engine::ItemResult& item : ran->items) {
        Tokens& out = made[item.seq.value];
        if (item.state == engine::ItemState::Sampled) out.push_back(item.token);
        const bool over = item.state != engine::ItemState::Sampled || out.size() >= most;
        if (over) std::erase(left, item.seq.value);
      }
    }
    return made;
  }

  std::unique_ptr<LlmEngine> engine_;
};

const std::string kJson =
    R"(root ::= "{" "\"room\": \"" [a-z]{1,12} "\", \"on\": " ("true" | "false") "}")";

TEST_F(ConstrainedTest, WhatComesOutFollowsTheGrammar) {
  std::vector<std::uint32_t> seqs;
  for (std::uint32_t seq = 0; seq < 6; ++seq) {
    auto open = request(seq, strict(kJson), seq);
    open.sampling.ignore_eos = seq % 2 == 1;  // The grammar's end is the end.
    ASSERT_TRUE(engine_->open(open));
    seqs.push_back(seq);
  }
  for (const auto& [seq, made] : finish(seqs, 200)) {
    const std::string out = text(made);
    EXPECT_TRUE(out.starts_with("{\"room\": \"")) << out;
    EXPECT_TRUE(out.ends_with("\"on\": true}") || out.ends_with("\"on\": false}")) << out;
  }
}

TEST_F(ConstrainedTest, NeighboursAreNotChanged) {
  ASSERT_TRUE(engine_->open(request(0, {}, 5)));
  const Tokens alone = finish({0}, 40)[0];
  engine_->drop(kModel, SeqId{0});
  ASSERT_TRUE(engine_->open(request(0, {}, 5)));
  ASSERT_TRUE(engine_->open(request(1, strict(kJson), 5)));
  EXPECT_EQ(finish({0, 1}, 40)[0], alone);
}

TEST_F(ConstrainedTest, OpenedAgainItGoesOnWithTheSameText) {
  ASSERT_TRUE(engine_->open(request(0, strict(kJson), 9)));
  const Tokens whole = finish({0}, 200)[0];
  for (const std::size_t cut : {std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
    engine_->drop(kModel, SeqId{0});
    engine::Open open = request(0, strict(kJson), 9);
    open.tokens.insert(open.tokens.end(), whole.begin(),
                       whole.begin() + static_cast<std::ptrdiff_t>(cut));
    ASSERT_TRUE(engine_->open(open));
    const Tokens rest = finish({0}, 200)[0];
    EXPECT_EQ(rest, Tokens(whole.begin() + static_cast<std::ptrdiff_t>(cut), whole.end()));
  }
}

TEST_F(ConstrainedTest, ABrokenGrammarFailsItsOwnOpenOnly) {
  EXPECT_EQ(engine_->open(request(0, strict("root ::= ("))).error().code, Code::Invalid);
  ASSERT_TRUE(engine_->open(request(0, {})));
  EXPECT_EQ(finish({0}, 3)[0].size(), 3U);
}

}  // namespace
}  // namespace lares::llm
