// Tools and schemas with the templates of other model families: what a model of the family writes
// must be what its grammar allows and what its parser reads back.
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
const std::string kStarter = LARES_SOURCE_DIR "/models/starter/chat/starter-chat-q8_0.gguf";
const std::string kFolder = LARES_LLAMA_SOURCE_DIR "/models/templates/";

const std::string kTools =
    R"([{"type":"function","function":{"name":"set_light","description":"Switches a light",)"
    R"("parameters":{"type":"object","properties":{"room":{"type":"string"},)"
    R"("on":{"type":"boolean"},"level":{"type":"integer"}},"required":["room","on"]}}},)"
    R"({"type":"function","function":{"name":"get_time","description":"Tells the time",)"
    R"("parameters":{"type":"object","properties":{}}}}])";
const std::string kAsk = R"([{"role":"user","content":"Light on in the kitchen"}])";
const std::string kSchema =
    R"({"type":"object","properties":{"room":{"type":"string"},"on":{"type":"boolean"}},)"
    R"("required":["room","on"],"additionalProperties":false})";
const std::string kObject = R"({"room": "kitchen", "on": true})";
const std::string kHermesCall =
    "<tool_call>\n{\"name\": \"set_light\", \"arguments\": " + kObject + "}\n</tool_call>";

// How a model of the family says "It is on." and how it calls set_light.
struct Style {
  const char* file;
  std::string words = "It is on.";
  std::string call = kHermesCall;
  bool lazy = true;  // Words and calls can be told apart from the call's first mark on.
  bool both = true;  // A format can be kept while tools may be called.
};

void PrintTo(const Style& style, std::ostream* out) {
  *out << style.file;
}

const std::vector<Style> kStyles = {
    {.file = "Qwen-Qwen2.5-7B-Instruct"},
    {.file = "Qwen-Qwen3-0.6B", .both = false},
    {.file = "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use"},
    {.file = "ibm-granite-granite-4.0"},
    {.file = "meta-llama-Llama-3.1-8B-Instruct",
     .call = R"({"name": "set_light", "parameters": )" + kObject + "}",
     .lazy = false,
     .both = false},
    {.file = "mistralai-Mistral-Nemo-Instruct-2407",
     .call = R"([TOOL_CALLS][{"name": "set_light", "arguments": )" + kObject +
             R"(, "id": "123456789"}])"},
    {.file = "meetkai-functionary-medium-v3.2",
     .words = "all\nIt is on.",
     .call = "set_light\n" + kObject,
     .both = false},
    {.file = "deepseek-ai-DeepSeek-V3.1",  // Begins inside a thought.
     .words = "Hm.</think>It is on.",
     .call = "Hm.</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>set_light<｜tool▁sep｜>" +
             kObject + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     .both = false},
    {.file = "openai-gpt-oss-120b",
     .words = "<|channel|>final<|message|>It is on.",
     .call = " to=functions.set_light<|channel|>commentary json<|message|>" + kObject,
     .both = false},
    {.file = "Qwen3-Coder",
     .call = "<tool_call>\n<function=set_light>\n<parameter=room>\nkitchen\n</parameter>\n"
             "<parameter=on>\ntrue\n</parameter>\n</function>\n</tool_call>"},
    {.file = "GLM-4.6",
     .call = "<tool_call>set_light\n<arg_key>room</arg_key>\n<arg_value>kitchen</arg_value>\n"
             "<arg_key>on</arg_key>\n<arg_value>true</arg_value>\n</tool_call>",
     .both = false},
    {.file = "Kimi-K2-Instruct",
     .call = "<|tool_calls_section_begin|><|tool_call_begin|>functions.set_light:0"
             "<|tool_call_argument_begin|>" +
             kObject + "<|tool_call_end|><|tool_calls_section_end|>",
     .both = false},
    {.file = "LFM2-8B-A1B",
     .call = "<|tool_call_start|>[set_light(room=\"kitchen\", on=true)]<|tool_call_end|>",
     .both = false},
};

class Family : public testing::TestWithParam<Style> {
 protected:
  void SetUp() override {
    const std::string file = kFolder + GetParam().file + ".jinja";
    if (!std::filesystem::exists(file)) GTEST_SKIP() << "this llama.cpp has no " << file;
    path_ = gguf_with_template(kStarter, GetParam().file, file_text(file));
    const auto loaded = text_.load(kModel, path_);
    ASSERT_TRUE(loaded) << loaded.error().message;
  }
  void TearDown() override {
    if (!path_.empty()) std::remove(path_.c_str());
  }

  Rendered render(const RenderChat& wish) {
    RenderChat chat = wish;
    chat.model = kModel;
    chat.messages = kAsk;
    auto rendered = text_.render(chat);
    EXPECT_TRUE(rendered) << rendered.error().message;
    return rendered ? std::move(*rendered) : Rendered{};
  }
  Rendered with_tools(ToolChoice choice = ToolChoice::Auto) {
    RenderChat chat;
    chat.tools = kTools;
    chat.tool_choice = choice;
    return render(chat);
  }

  ParsedChat parse(const Rendered& rendered, const std::string& text, bool partial = false) {
    auto parsed = text_.parse({++key_, rendered.parser, text, partial});
    EXPECT_TRUE(parsed) << parsed.error().message << "\n" << text;
    return parsed ? std::move(*parsed) : ParsedChat{};
  }

  static void expect_call(const ParsedChat& parsed) {
    ASSERT_EQ(parsed.calls.size(), 1U) << parsed.content;
    EXPECT_EQ(parsed.calls[0].name, "set_light");
    std::string arguments = parsed.calls[0].arguments;
    std::erase(arguments, ' ');
    EXPECT_EQ(arguments, R"({"room":"kitchen","on":true})");
    EXPECT_EQ(parsed.content, "");
  }

  // Whether the grammar takes the text from its beginning to an end.
  bool grammar_takes(const Rendered& rendered, const std::string& text) {
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    const llama_model_ptr model(llama_model_load_from_file(path_.c_str(), params));
    const llama_vocab* vocab = llama_model_get_vocab(model.get());
    const llama_sampler_ptr sampler(
        llama_sampler_init_grammar(vocab, rendered.constraint.grammar.c_str(), "root"));
    if (!sampler) return false;
    std::vector<std::int32_t> tokens = rendered.constraint.prefill;
    const auto answer = text_.tokenize({kModel, text, false, true});
    tokens.insert(tokens.end(), answer->begin(), answer->end());
    try {
      for (const std::int32_t token : tokens) llama_sampler_accept(sampler.get(), token);
    } catch (const std::exception&) {
      return false;
    }
    llama_token_data end{llama_vocab_eos(vocab), 1, 0};
    llama_token_data_array one{&end, 1, -1, false};
    llama_sampler_apply(sampler.get(), &one);
    return end.logit > 0;
  }

  LlamaText text_;
  std::string path_;
  std::uint64_t key_ = 0;
};

TEST_P(Family, CallsAreReadBack) {
  const Rendered rendered = with_tools();
  ASSERT_TRUE(rendered.parser);
  expect_call(parse(rendered, GetParam().call));
}

TEST_P(Family, WordsAreContent) {
  const Rendered rendered = with_tools();
  ASSERT_TRUE(rendered.parser);
  const ParsedChat parsed = parse(rendered, GetParam().words);
  EXPECT_EQ(parsed.content, "It is on.");
  EXPECT_TRUE(parsed.calls.empty());
}

TEST_P(Family, ACallThatMayComeHasItsGrammarFromItsFirstMarkOn) {
  const Constraint c = with_tools().constraint;
  EXPECT_EQ(c.lazy, GetParam().lazy);
  EXPECT_EQ(c.trigger_words.empty() && c.trigger_patterns.empty(), !GetParam().lazy);
}

TEST_P(Family, ACallThatMustComeIsAllTheGrammarTakes) {
  const Rendered rendered = with_tools(ToolChoice::Required);
  EXPECT_FALSE(rendered.constraint.lazy);
  EXPECT_TRUE(grammar_takes(rendered, GetParam().call)) << rendered.constraint.grammar;
  EXPECT_FALSE(grammar_takes(rendered, GetParam().words));
  expect_call(parse(rendered, GetParam().call));
}

// What a stream tells is never taken back: every reading begins with the one before.
TEST_P(Family, BeginningsGrow) {
  const Rendered rendered = with_tools();
  ASSERT_TRUE(rendered.parser);
  const std::string call = GetParam().call;
  const ParsedChat whole = parse(rendered, call);
  std::string told;
  for (std::size_t n = 1; n <= call.size(); ++n) {
    if (n < call.size() && (static_cast<unsigned char>(call[n]) & 0xC0U) == 0x80U) continue;
    const auto parsed = text_.parse({++key_, rendered.parser, call.substr(0, n), true});
    if (!parsed || parsed->calls.empty()) continue;
    EXPECT_LE(parsed->calls.size(), whole.calls.size());
    const std::string& arguments = parsed->calls[0].arguments;
    EXPECT_TRUE(arguments.size() < told.size() || arguments.starts_with(told)) << arguments;
    if (arguments.size() > told.size()) told = arguments;
  }
  ASSERT_EQ(whole.calls.size(), 1U);
  EXPECT_TRUE(whole.calls[0].arguments.starts_with(told)) << told;
}

TEST_P(Family, SchemasAreKept) {
  RenderChat chat;
  chat.schema = kSchema;
  const Rendered rendered = render(chat);
  EXPECT_FALSE(rendered.constraint.empty());
  EXPECT_FALSE(rendered.constraint.lazy);
  if (GetParam().file == std::string("openai-gpt-oss-120b")) return;  // Its channels come first.
  const std::string& grammar = rendered.constraint.grammar;
  const std::string thought =
      grammar.find("</think>") == std::string::npos || GetParam().words.front() != 'H' ? ""
                                                                                       : "</think>";
  EXPECT_TRUE(grammar_takes(rendered, thought + kObject)) << grammar;
  EXPECT_FALSE(grammar_takes(rendered, thought + R"({"room": "kitchen"})"));
  EXPECT_FALSE(grammar_takes(rendered, GetParam().words));
  if (rendered.parser) {
    EXPECT_EQ(parse(rendered, thought + kObject).content, kObject);
  }
}

TEST_P(Family, AnAnswerIsACallOrKeepsTheSchema) {
  RenderChat chat;
  chat.model = kModel;
  chat.messages = kAsk;
  chat.tools = kTools;
  chat.schema = kSchema;
  const auto rendered = text_.render(chat);
  ASSERT_EQ(rendered.has_value(), GetParam().both) << (rendered ? "" : rendered.error().message);
  if (!rendered) {
    EXPECT_EQ(rendered.error().code, Code::Unsupported);
    return;
  }
  EXPECT_FALSE(rendered->constraint.lazy);
  EXPECT_TRUE(grammar_takes(*rendered, GetParam().call)) << rendered->constraint.grammar;
  EXPECT_TRUE(grammar_takes(*rendered, kObject)) << rendered->constraint.grammar;
  EXPECT_FALSE(grammar_takes(*rendered, GetParam().words));
  expect_call(parse(*rendered, GetParam().call));
  const ParsedChat said = parse(*rendered, kObject);
  EXPECT_EQ(said.content, kObject);
  EXPECT_TRUE(said.calls.empty());
}

INSTANTIATE_TEST_SUITE_P(Templates, Family, testing::ValuesIn(kStyles), [](const auto& info) {
  std::string name = info.param.file;
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
});

}  // namespace
}  // namespace lares::text
