// Tools and schemas with the templates of other model families: what each writes for a call must be
// what its grammar allows and what its parser reads back.
//
// The templates are those in llama.cpp's sources, where the tree that was built with has them; the
// vocabulary is the starter model's.
#include <cstdio>
#include <filesystem>

#include <gtest/gtest.h>
#include <llama-cpp.h>

#include "text/llama/llama_text.h"
#include "text/llama/test_gguf.h"

namespace lares::text {
namespace {

constexpr ModelId kModel{4};
const std::string kFolder = LARES_LLAMA_SOURCE_DIR "/models/templates/";

const std::string kTools =
    R"([{"type":"function","function":{"name":"set_light","description":"Switches a light",)"
    R"("parameters":{"type":"object","properties":{"room":{"type":"string"},)"
    R"("on":{"type":"boolean"},"level":{"type":"integer"}},"required":["room","on"]}}},)"
    R"({"type":"function","function":{"name":"get_time","description":"Tells the time",)"
    R"("parameters":{"type":"object","properties":{}}}}])";
const std::string kAsk = R"({"role":"user","content":"Light on in the kitchen"})";
const std::string kCall =
    R"({"role":"assistant","content":"","tool_calls":[{"type":"function","id":"123456789",)"
    R"("function":{"name":"set_light","arguments":"{\"room\":\"kitchen\",\"on\":true}"}}]})";

class Family : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string file = kFolder + GetParam() + ".jinja";
    if (!std::filesystem::exists(file)) GTEST_SKIP() << "this llama.cpp has no " << file;
    path_ = gguf_with_template(GetParam(), file_text(file));
    auto loaded = text_.load(kModel, path_);
    ASSERT_TRUE(loaded) << loaded.error().message;
    vocabulary_ = std::move(*loaded);
  }
  void TearDown() override {
    if (!path_.empty()) std::remove(path_.c_str());
  }

  Result<Rendered> render(const std::string& messages, ToolChoice choice = ToolChoice::Auto) {
    RenderChat chat;
    chat.model = kModel;
    chat.messages = "[" + messages + "]";
    chat.tools = kTools;
    chat.tool_choice = choice;
    return text_.render(chat);
  }

  [[nodiscard]] std::string shown(const Rendered& rendered) const {
    std::string text;
    for (const auto token : rendered.tokens) {
      const auto at = static_cast<std::size_t>(token);
      text += vocabulary_.bytes.substr(vocabulary_.offsets[at],
                                       vocabulary_.offsets[at + 1] - vocabulary_.offsets[at]);
    }
    return text;
  }

  // What the model would have to write for the call, by its own template.
  std::string written_call() {
    RenderChat chat;
    chat.model = kModel;
    chat.tools = kTools;
    chat.messages = "[" + kAsk + "," + kCall + "]";
    chat.add_generation_prompt = false;
    const auto with = text_.render(chat);
    const auto without = render(kAsk);
    EXPECT_TRUE(with) << with.error().message;
    EXPECT_TRUE(without) << without.error().message;
    if (!with || !without) return "";
    const std::string whole = shown(*with), before = shown(*without);
    EXPECT_TRUE(whole.starts_with(before)) << whole << "\n---\n" << before;
    return whole.starts_with(before) ? whole.substr(before.size()) : "";
  }

  Result<ParsedChat> parse(const Rendered& rendered, const std::string& text, bool partial) {
    return text_.parse({.key = 1, .parser = rendered.parser, .text = text, .partial = partial});
  }

  LlamaText text_;
  Vocabulary vocabulary_;
  std::string path_;
};

TEST_P(Family, ToolCallsAreAskedForAndReadBack) {
  const auto rendered = render(kAsk);
  ASSERT_TRUE(rendered) << rendered.error().message;
  ASSERT_TRUE(rendered->parser);
  EXPECT_NE(shown(*rendered).find("set_light"), std::string::npos);
  EXPECT_FALSE(rendered->constraint.empty());
  EXPECT_TRUE(rendered->constraint.lazy);
  EXPECT_FALSE(rendered->constraint.trigger_words.empty() &&
               rendered->constraint.trigger_patterns.empty());
  std::string call = written_call();
  ASSERT_FALSE(call.empty());
  std::printf("%s: %s\n", GetParam(), call.c_str());
  const auto parsed = parse(*rendered, call, false);
  ASSERT_TRUE(parsed) << parsed.error().message << "\n" << call;
  ASSERT_EQ(parsed->calls.size(), 1U) << call << "\n" << parsed->content;
  EXPECT_EQ(parsed->calls[0].name, "set_light");
  std::string arguments = parsed->calls[0].arguments;
  std::erase(arguments, ' ');
  EXPECT_EQ(arguments, R"({"room":"kitchen","on":true})");
}

TEST_P(Family, WordsAreContent) {
  const auto rendered = render(kAsk);
  ASSERT_TRUE(rendered) << rendered.error().message;
  const auto parsed = parse(*rendered, "The light is on.", true);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->content + parsed->reasoning, "The light is on.");
  EXPECT_TRUE(parsed->calls.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Templates, Family,
    testing::Values("Qwen-Qwen2.5-7B-Instruct", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
                    "meta-llama-Llama-3.1-8B-Instruct", "mistralai-Mistral-Nemo-Instruct-2407",
                    "meetkai-functionary-medium-v3.2", "deepseek-ai-DeepSeek-V3.1",
                    "openai-gpt-oss-120b", "Qwen3-Coder", "GLM-4.6", "Kimi-K2-Instruct",
                    "CohereForAI-c4ai-command-r7b-12-2024-tool_use", "ibm-granite-granite-4.0",
                    "Qwen-Qwen3-0.6B", "LFM2-8B-A1B"),
    [](const auto& info) {
      std::string name = info.param;
      std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
      return name;
    });

}  // namespace
}  // namespace lares::text
