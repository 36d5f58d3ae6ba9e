#include "server/ollama_request.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

const std::string kMessages = R"("messages":[{"role":"user","content":"hi"}])";

tl::expected<OllamaRequest, ApiError> chat(const std::string& fields) {
  return parse_ollama_request(OllamaForm::Chat, R"({"model":"m",)" + fields + "}");
}
tl::expected<OllamaRequest, ApiError> generate(const std::string& fields) {
  return parse_ollama_request(OllamaForm::Generate, R"({"model":"m",)" + fields + "}");
}
ChatPrompt prompt(const tl::expected<OllamaRequest, ApiError>& parsed) {
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? std::get<ChatPrompt>(parsed->generation.prompt) : ChatPrompt{};
}

TEST(OllamaRequest, Defaults) {
  const auto parsed = chat(kMessages);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(parsed->stream);
  EXPECT_FALSE(parsed->load_only);
  EXPECT_EQ(parsed->generation.model, "m");
  EXPECT_FALSE(parsed->generation.max_tokens);
  EXPECT_EQ(prompt(parsed).messages, R"([{"role":"user","content":"hi"}])");
}

TEST(OllamaRequest, Options) {
  const auto parsed = chat(
      kMessages +
      R"(,"stream":false,"keep_alive":"5m","options":{"temperature":0.5,"top_k":3,"top_p":0.9,)"
      R"("min_p":0.1,"seed":7,"num_predict":9,"stop":["a",""],"repeat_penalty":1.1,)"
      R"("repeat_last_n":-1,"presence_penalty":0.5,"frequency_penalty":0.25,"num_ctx":4096,)"
      R"("mirostat":0})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Generation& g = parsed->generation;
  EXPECT_FALSE(parsed->stream);
  EXPECT_EQ(g.sampling.temperature, 0.5F);
  EXPECT_EQ(g.sampling.top_k, 3U);
  EXPECT_EQ(g.sampling.penalty_window, 65536U);
  EXPECT_EQ(g.sampling.frequency_penalty, 0.25F);
  EXPECT_EQ(g.seed, 7U);
  EXPECT_EQ(g.max_tokens, 9U);
  EXPECT_EQ(g.stop, std::vector<std::string>{"a"});
  EXPECT_FALSE(chat(kMessages + R"(,"options":{"num_predict":-1})")->generation.max_tokens);
}

TEST(OllamaRequest, MessagesInOllamasNames) {
  EXPECT_EQ(prompt(chat(R"("messages":[{"role":"user","content":"x","images":[]},)"
                        R"({"role":"assistant","content":"","thinking":"hm","tool_calls":)"
                        R"([{"function":{"name":"light","arguments":{"on":true}}}]},)"
                        R"({"role":"tool","content":"ok","tool_name":"light"}])"))
                .messages,
            R"([{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":)"
            R"([{"type":"function","function":{"name":"light","arguments":"{\"on\":true}"}}],)"
            R"("reasoning_content":"hm"},{"role":"tool","content":"ok","name":"light"}])");
}

TEST(OllamaRequest, FormatToolsAndThink) {
  EXPECT_EQ(prompt(chat(kMessages + R"(,"format":"json")")).schema, R"({"type":"object"})");
  EXPECT_EQ(prompt(chat(kMessages + R"(,"format":"")")).schema, "");
  EXPECT_EQ(prompt(chat(kMessages + R"(,"format":{"type":"string"})")).schema,
            R"({"type":"string"})");
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"light"}}])";
  EXPECT_EQ(prompt(chat(kMessages + tools)).tool_choice, text::ToolChoice::Auto);
  EXPECT_NE(prompt(chat(kMessages + tools)).tools.find("light"), std::string::npos);
  EXPECT_EQ(prompt(chat(kMessages + tools + R"(,"format":"json")")).tool_choice,
            text::ToolChoice::None);
  EXPECT_EQ(prompt(chat(kMessages + R"(,"think":false)")).options, R"({"enable_thinking":false})");
  EXPECT_EQ(prompt(chat(kMessages + R"(,"think":"low")")).options,
            R"({"enable_thinking":true,"reasoning_effort":"low"})");
}

TEST(OllamaRequest, Generate) {
  EXPECT_EQ(prompt(generate(R"("prompt":"hi","system":"s")")).messages,
            R"([{"role":"system","content":"s"},{"role":"user","content":"hi"}])");
  const auto raw = generate(R"("prompt":"hi","raw":true)");
  ASSERT_TRUE(raw);
  EXPECT_EQ(std::get<TextPrompt>(raw->generation.prompt).text, "hi");
}

TEST(OllamaRequest, NothingAskedLoadsTheModel) {
  for (const auto& parsed : {chat(R"("messages":[])"), chat(R"("keep_alive":-1)"),
                             generate(R"("prompt":"")"), generate(R"("keep_alive":"10m")")}) {
    ASSERT_TRUE(parsed);
    EXPECT_TRUE(parsed->load_only);
    EXPECT_EQ(parsed->generation.max_tokens, 1U);
  }
  const auto unload = generate(R"("keep_alive":0)");
  ASSERT_TRUE(unload);
  EXPECT_TRUE(unload->generation.unload_only);
  EXPECT_EQ(unload->generation.keep, Duration{});
  EXPECT_FALSE(generate(R"("prompt":"")")->generation.unload_only);
}

TEST(OllamaRequest, WhatIsWrongIsNamed) {
  const std::vector<std::pair<std::string, std::string>> chats = {
      {R"("messages":5)", "messages"},
      {R"("messages":[{"role":"user","content":"x","images":["AAAA"]}])", "messages[0].images"},
      {R"("messages":[5])", "messages[0]"},
      {R"("messages":[{"role":"usr","content":"x"}])", "messages[0].role"},
      {kMessages + R"(,"format":5)", "format"},
      {kMessages + R"(,"format":"xml")", "format"},
      {kMessages + R"(,"think":"much")", "think"},
      {kMessages + R"(,"keep_alive":[])", "keep_alive"},
      {kMessages + R"(,"stream":"yes")", "stream"},
      {kMessages + R"(,"options":5)", "options"},
      {kMessages + R"(,"options":{"temperature":"hot"})", "options.temperature"},
      {kMessages + R"(,"options":{"seed":1.5})", "options.seed"},
      {kMessages + R"(,"options":{"stop":[5]})", "options.stop"},
      {kMessages + R"(,"tools":[{"type":"function"}])", "tools[0].function"},
  };
  for (const auto& [fields, param] : chats) {
    const auto parsed = chat(fields);
    ASSERT_FALSE(parsed) << fields;
    EXPECT_EQ(parsed.error().param, param) << fields;
    EXPECT_EQ(error_status(parsed.error()), 400);
  }
  for (const std::string name : {"suffix", "template"}) {
    EXPECT_EQ(generate(R"("prompt":"a",")" + name + R"(":"x")").error().param, name);
  }
  EXPECT_EQ(generate(R"("prompt":"a","context":[1])").error().param, "context");
  EXPECT_EQ(parse_ollama_request(OllamaForm::Chat, "{").error().error_code, "invalid_json");
}

}  // namespace
}  // namespace lares::server
