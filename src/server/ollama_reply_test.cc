#include "server/ollama_reply.h"

#include <gtest/gtest.h>

#include "core/json.h"

namespace lares::server {
namespace {

using std::chrono::nanoseconds;

OllamaReply reply(OllamaForm form, bool load_only = false) {
  return OllamaReply({form, "m", "2023-11-14T22:13:20Z", load_only});
}

TextDelta words(std::string text, Finish finish = Finish::None) {
  TextDelta out;
  out.text = std::move(text);
  out.finish = finish;
  return out;
}

TEST(OllamaReply, AStreamOfLines) {
  OllamaReply chat = reply(OllamaForm::Chat);
  std::string out;
  chat.add(words("He said \"hi\""), true, out);
  chat.add(words("", Finish::Stop), true, out);
  chat.append_end({5, 2, 3}, {nanoseconds(100), nanoseconds(40)}, true, out);
  EXPECT_EQ(
      out,
      R"({"model":"m","created_at":"2023-11-14T22:13:20Z","message":{"role":"assistant","content":"He said \"hi\""},"done":false}
{"model":"m","created_at":"2023-11-14T22:13:20Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":100,"load_duration":0,"prompt_eval_count":5,"prompt_eval_duration":40,"eval_count":3,"eval_duration":60}
)");
}

TEST(OllamaReply, OneBodyHoldsEverything) {
  OllamaReply generate = reply(OllamaForm::Generate);
  std::string out;
  TextDelta thought;
  thought.reasoning = "Hm";
  generate.add(thought, false, out);
  generate.add(words("One "), false, out);
  generate.add(words("two", Finish::Length), false, out);
  EXPECT_EQ(out, "");
  generate.append_end({}, {}, false, out);
  EXPECT_TRUE(out.starts_with(
      R"({"model":"m","created_at":"2023-11-14T22:13:20Z","response":"One two","thinking":"Hm","done":true,"done_reason":"length",)"))
      << out;
}

TEST(OllamaReply, CallsComeWholeAndLast) {
  OllamaReply chat = reply(OllamaForm::Chat);
  std::string out;
  TextDelta begun;
  begun.calls = {{0, "a1", "light", "{\"on\""}};
  chat.add(begun, true, out);
  EXPECT_EQ(out, "");
  TextDelta rest;
  rest.calls = {{0, "", "", ": true}"}, {1, "a2", "cut", "{\"x\""}};
  rest.finish = Finish::ToolCalls;
  chat.add(rest, true, out);
  chat.append_end({}, {}, true, out);
  EXPECT_NE(
      out.find(
          R"("tool_calls":[{"id":"a1","function":{"index":0,"name":"light","arguments":{"on":true}}},{"id":"a2","function":{"index":1,"name":"cut","arguments":{}}}]},"done":false}
{)"),
      std::string::npos)
      << out;
}

TEST(OllamaReply, Loaded) {
  OllamaReply chat = reply(OllamaForm::Generate, true);
  std::string out;
  chat.add(words("x", Finish::Length), true, out);
  chat.append_end({}, {}, true, out);
  EXPECT_EQ(
      out,
      R"({"model":"m","created_at":"2023-11-14T22:13:20Z","response":"","done":true,"done_reason":"load"})"
      "\n");
}

TEST(OllamaReply, Times) {
  EXPECT_EQ(rfc3339(1700000000), "2023-11-14T22:13:20Z");
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00Z");
}

TEST(OllamaReply, Models) {
  ModelStatus ready;
  ready.name = "qwen";
  ready.state = "ready";
  ready.context = 2048;
  ready.created = 1700000000;
  ready.info.architecture = "qwen3";
  ready.info.description = "qwen3 0.6B Q8_0";
  ready.info.parameters = 600000000;
  ready.info.weights = Bytes{640};
  ready.info.embedding = 1024;
  ready.info.can.has_chat_template = true;
  ModelStatus failed = ready;
  failed.name = "broken";
  failed.state = "failed";
  ModelStatus available = ready;
  available.name = "other";
  available.state = "available";
  const std::vector<ModelStatus> models{ready, failed, available};
  const auto tags = json::parse(ollama_tags(models));
  ASSERT_TRUE(tags) << ollama_tags(models);
  const auto& list = *tags->find("models")->as<json::Array>();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(*list[0].find("name"), json::Value("qwen"));
  EXPECT_EQ(list[0].find("digest")->as<std::string>()->size(), 64U);
  EXPECT_EQ(*list[0].find("details")->find("quantization_level"), json::Value("Q8_0"));
  EXPECT_EQ(*list[0].find("details")->find("parameter_size"), json::Value("600.0M"));
  const auto running = json::parse(ollama_running(models));
  ASSERT_TRUE(running) << ollama_running(models);
  EXPECT_EQ(running->find("models")->as<json::Array>()->size(), 1U);
  const auto show = json::parse(ollama_show(ready));
  ASSERT_TRUE(show) << ollama_show(ready);
  EXPECT_EQ(*show->find("model_info")->find("qwen3.context_length"),
            json::Value(std::int64_t{2048}));
  EXPECT_EQ(json::to_text(*show->find("capabilities")), R"(["completion","tools"])");
}

}  // namespace
}  // namespace lares::server
