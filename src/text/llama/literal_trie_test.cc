#include "text/llama/literal_trie.h"

#include <gtest/gtest.h>
#include <llama-cpp.h>

#include <string>
#include <vector>

#include <fmt/format.h>

namespace lares::text {
namespace {

const std::string kStarter = LARES_SOURCE_DIR "/models/starter/chat/starter-chat-q8_0.gguf";

TEST(LiteralTrie, CommonBeginningsAreSharedAndEndsAreOptional) {
  EXPECT_EQ(with_literal_trees(R"(root ::= ("ab" | "abc" | "ad" | "x") " ")"),
            R"(root ::= ("a" ("b" ("c")? | "d") | "x") " ")");
  EXPECT_EQ(with_literal_trees(R"(r ::= ("a" | "a" | "a" | "a"))"), R"(r ::= ("a"))");
  EXPECT_EQ(with_literal_trees(R"(r ::= ("" | "a" | "b" | "c"))"), R"(r ::= ("a" | "b" | "c")?)");
}

TEST(LiteralTrie, LettersAreNotCutInTwo) {
  EXPECT_EQ(with_literal_trees(R"(r ::= ("\"a\"" | "\"b\"" | "\"\\\"" | "\n"))"),
            R"(r ::= ("\"" ("\\\"" | "a\"" | "b\"") | "\n"))");
  EXPECT_EQ(with_literal_trees("r ::= (\"\xC3\xA4\" | \"\xC3\xB6\" | \"\xC3\xBC\" | \"u\")"),
            "r ::= (\"u\" | \"\xC3\xA4\" | \"\xC3\xB6\" | \"\xC3\xBC\")");
  EXPECT_EQ(with_literal_trees(R"(r ::= ("\x41" | "\x42" | "\x43" | "\x44"))"),
            R"(r ::= ("\x41" | "\x42" | "\x43" | "\x44"))");
}

TEST(LiteralTrie, EverythingElseStaysAsItIs) {
  for (const std::string same :
       {R"(r ::= ("a" | "b"))", R"(r ::= ("a" | x | "b" | "c" | "d"))", R"(r ::= [("]+ ("a"))",
        R"~(r ::= "(" "a" | "b" ")")~", R"~(r ::= ("a" | "b" | "c" | "d")~", R"~(r ::= ("a" |)~",
        "r ::= (\"a", "r ::= [", "r ::= \"\\", ""}) {
    EXPECT_EQ(with_literal_trees(same), same);
  }
}

// The same texts are taken before and after, each of its values and nothing beside.
TEST(LiteralTrie, TakesTheSameTexts) {
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const llama_model_ptr model(llama_model_load_from_file(kStarter.c_str(), params));
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  std::vector<std::string> values;
  for (int i = 0; i < 300; ++i) values.push_back(fmt::format("value {}", i * i));
  values.emplace_back("value");
  values.emplace_back(200, 'x');
  for (std::size_t n = 1; n < 150; ++n) values.emplace_back(n, 'y');  // Deeper than the limit.
  std::string list = "root ::= (";
  for (const std::string& value : values) list += "\"" + value + "\" | ";
  list.replace(list.size() - 3, 3, ")");
  const std::string tree = with_literal_trees(list);
  EXPECT_LT(tree.size(), list.size());
  const auto takes = [&](const std::string& text) {
    const llama_sampler_ptr sampler(llama_sampler_init_grammar(vocab, tree.c_str(), "root"));
    EXPECT_TRUE(sampler);
    std::vector<llama_token> tokens(text.size() + 8);
    tokens.resize(static_cast<std::size_t>(
        llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                       static_cast<int>(tokens.size()), false, false)));
    try {
      for (const auto token : tokens) llama_sampler_accept(sampler.get(), token);
    } catch (const std::exception&) {
      return false;
    }
    llama_token_data end{llama_vocab_eos(vocab), 1, 0};
    llama_token_data_array one{&end, 1, -1, false};
    llama_sampler_apply(sampler.get(), &one);
    return end.logit > 0;
  };
  for (std::size_t i = 0; i < values.size(); i += 7) EXPECT_TRUE(takes(values[i])) << values[i];
  EXPECT_TRUE(takes("value"));
  for (const char* other : {"valu", "value 2", "value 00", "valuevalue", "xx", "y y", ""}) {
    EXPECT_FALSE(takes(other)) << other;
  }
}

}  // namespace
}  // namespace lares::text
