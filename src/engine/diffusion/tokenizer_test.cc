#include "engine/diffusion/tokenizer.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "engine/diffusion/test_folder.h"

namespace lares::diffusion {
namespace {

Tokenizer starter() {
  const auto config = read_folder(kStarterModel);
  auto tokenizer =
      Tokenizer::open(kStarterModel + "/tokenizer", config->tokenizer, config->text.vocabulary);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *std::move(tokenizer);
}

TEST(Tokenizer, AgreesWithTheGoldenCases) {
  const Tokenizer tokenizer = starter();
  const auto golden = json::parse(read_file(kStarter + "golden/tokenizer.json"));
  ASSERT_TRUE(golden);
  const auto* cases = golden->find("cases")->as<json::Array>();
  EXPECT_EQ(cases->size(), 13U);
  for (const json::Value& one : *cases) {
    const auto& text = *one.find("text")->as<std::string>();
    std::vector<std::int32_t> expected;
    for (const json::Value& id : *one.find("ids")->as<json::Array>()) {
      expected.push_back(static_cast<std::int32_t>(*id.integer()));
    }
    EXPECT_EQ(*tokenizer.encode(text), expected) << text;
  }
}

TEST(Tokenizer, ReadsTheSameTextInAnyForm) {
  const Tokenizer tokenizer = starter();
  EXPECT_EQ(*tokenizer.encode("u\u0301n a\u0301rbol"), *tokenizer.encode("\u00FAN  \u00C1RBOL "));
  EXPECT_NE(*tokenizer.encode("un arbol"), *tokenizer.encode("un \u00e1rbol"));
}

TEST(Tokenizer, CutsAndRefusesLongPrompts) {
  const Tokenizer tokenizer = starter();
  const auto ids = tokenizer.encode(std::string(kPromptMax, 'x'));
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->size(), 32U);
  EXPECT_EQ(ids->front(), 2046);
  EXPECT_EQ(ids->back(), 2047);
  EXPECT_EQ(tokenizer.encode(std::string(kPromptMax + 1, 'x')).error().code, Code::TooLarge);
  EXPECT_TRUE(tokenizer.encode("\xff\xfe broken"));
}

TEST(Tokenizer, RefusesAVocabularyThatCannotSpell) {
  const auto config = read_folder(kStarterModel);
  const std::string folder = test_file("tokenizer");
  write_file(folder + "/vocab.json", R"({"<|startoftext|>":1,"<|endoftext|>":2})");
  write_file(folder + "/merges.txt", "#version: 0.2\n");
  EXPECT_EQ(Tokenizer::open(folder, config->tokenizer, 2048).error().code, Code::Invalid);
  write_file(folder + "/vocab.json", R"({"<|startoftext|>":1,"<|endoftext|>":4000})");
  const auto large = Tokenizer::open(folder, config->tokenizer, 2048);
  EXPECT_NE(large.error().message.find("must have an id below 2048"), std::string::npos);
}

}  // namespace
}  // namespace lares::diffusion
