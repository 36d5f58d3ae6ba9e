// tools, tool_choice, response_format and calls among the messages of a chat request.
#include "server/openai_tools.h"

#include <gtest/gtest.h>

#include "server/openai_request.h"

namespace lares::server {
namespace {

const std::string kLight =
    R"({"type":"function","function":{"name":"light","description":"d","strict":true,)"
    R"("parameters":{"type":"object","properties":{"on":{"type":"boolean"}}}}})";

tl::expected<ChatPrompt, ApiError> read(const std::string& fields) {
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}])" +
                           (fields.empty() ? "" : "," + fields) + "}";
  auto parsed = parse_openai_request(OpenAiForm::Chat, body);
  if (!parsed) return tl::unexpected(parsed.error());
  return std::get<ChatPrompt>(parsed->generation.prompt);
}

std::string tools(const std::string& list) {
  return R"("tools":[)" + list + "]";
}

TEST(OpenAiTools, ToolsAreNormalised) {
  const auto chat = read(tools(kLight + R"(,{"function":{"name":"clock"}})"));
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_EQ(chat->tools,
            R"([{"type":"function","function":{"name":"light","description":"d",)"
            R"("parameters":{"type":"object","properties":{"on":{"type":"boolean"}}}}},)"
            R"({"type":"function","function":{"name":"clock"}}])");
  EXPECT_EQ(chat->tool_choice, text::ToolChoice::Auto);
  EXPECT_FALSE(chat->parallel_tool_calls);
}

TEST(OpenAiTools, Choices) {
  const auto with = [](const std::string& choice) {
    return read(tools(kLight) + R"(,"parallel_tool_calls":false,"tool_choice":)" + choice);
  };
  EXPECT_EQ(with(R"("auto")")->tool_choice, text::ToolChoice::Auto);
  EXPECT_EQ(with(R"("none")")->tool_choice, text::ToolChoice::None);
  EXPECT_EQ(with(R"("required")")->tool_choice, text::ToolChoice::Required);
  EXPECT_EQ(with(R"("required")")->tool_name, "");
  EXPECT_EQ(with(R"("required")")->parallel_tool_calls, false);
  const auto named = with(R"({"type":"function","function":{"name":"light"}})");
  EXPECT_EQ(named->tool_choice, text::ToolChoice::Required);
  EXPECT_EQ(named->tool_name, "light");
}

TEST(OpenAiTools, ResponseFormats) {
  const auto schema = [](const std::string& format) {
    return read(R"("response_format":)" + format)->schema;
  };
  EXPECT_EQ(schema(R"({"type":"text"})"), "");
  EXPECT_EQ(schema(R"({"type":"json_object"})"), R"({"type":"object"})");
  EXPECT_EQ(schema(R"({"type":"json_schema","json_schema":{"name":"n","strict":true,)"
                   R"("schema":{"type":"string"}}})"),
            R"({"type":"string"})");
  EXPECT_EQ(schema(R"({"type":"json_schema","json_schema":{"schema":{}}})"),
            R"({"type":"object"})");
}

TEST(OpenAiTools, Effort) {
  EXPECT_EQ(read(R"("reasoning_effort":"none")")->options, R"({"enable_thinking":false})");
  EXPECT_EQ(read(R"("reasoning_effort":"low","chat_template_kwargs":{"a":1})")->options,
            R"({"a":1,"reasoning_effort":"low"})");
}

TEST(OpenAiTools, CallsInMessages) {
  const auto messages = [](const std::string& list) {
    auto parsed = parse_openai_request(OpenAiForm::Chat, R"({"messages":[)" + list + "]}");
    return parsed ? std::get<ChatPrompt>(parsed->generation.prompt).messages
                  : parsed.error().message;
  };
  const auto call = [](const std::string& function) {
    return R"({"role":"assistant","tool_calls":[{"id":"1","type":"function","function":)" +
           function + "}]}";
  };
  EXPECT_EQ(messages(call(R"({"name":"light","arguments":"{\"on\":true}"})") +
                     R"(,{"role":"tool","tool_call_id":"1","content":"ok"})"),
            R"([{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function",)"
            R"("function":{"name":"light","arguments":"{\"on\":true}"}}]},)"
            R"({"role":"tool","content":"ok","tool_call_id":"1"}])");
  // Ollama's form, and calls without arguments.
  EXPECT_NE(messages(call(R"({"name":"light","arguments":{"on":true}})"))
                .find(R"("arguments":"{\"on\":true}")"),
            std::string::npos);
  EXPECT_NE(messages(call(R"({"name":"light","arguments":""})")).find(R"("arguments":"{}")"),
            std::string::npos);
  for (const char* bad :
       {R"({"name":"light","arguments":"{"})", R"({"name":"light","arguments":5})",
        R"({"name":"light","arguments":"[]"})"}) {
    EXPECT_EQ(messages(call(bad)),
              "messages[0].tool_calls[0].function.arguments must be the text of a JSON object");
  }
  EXPECT_EQ(messages(call(R"({"arguments":"{}"})")),
            "messages[0].tool_calls[0].function.name is required");
}

struct Bad {
  std::string fields;
  std::string param;
};

TEST(OpenAiTools, WhatIsWrongIsNamed) {
  for (const Bad& bad : std::vector<Bad>{
           {R"("tools":{})", "tools"},
           {tools("5"), "tools[0]"},
           {tools("{}"), "tools[0].function"},
           {tools(R"({"type":"function"})"), "tools[0].function"},
           {tools(R"({"type":"web_search"})"), "tools[0].type"},
           {tools(R"({"function":{}})"), "tools[0].function.name"},
           {tools(R"({"function":{"name":"a b"}})"), "tools[0].function.name"},
           {tools(R"({"function":{"name":""}})"), "tools[0].function.name"},
           {tools(R"({"function":{"name":"a","parameters":[]}})"), "tools[0].function.parameters"},
           {tools(kLight + "," + kLight), "tools[1].function.name"},
           {R"("tool_choice":"required")", "tool_choice"},
           {R"("tool_choice":"any")", "tool_choice"},
           {tools(kLight) + R"(,"tool_choice":{"type":"function","function":{"name":"lihgt"}})",
            "tool_choice"},
           {tools(kLight) + R"(,"tool_choice":{"type":"function"})", "tool_choice.function"},
           {tools(kLight) + R"(,"tool_choice":5)", "tool_choice"},
           {R"("parallel_tool_calls":"no")", "parallel_tool_calls"},
           {R"("response_format":"json")", "response_format"},
           {R"("response_format":{})", "response_format.type"},
           {R"("response_format":{"type":"xml"})", "response_format.type"},
           {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
           {R"("response_format":{"type":"json_schema","json_schema":{}})",
            "response_format.json_schema.schema"},
           {R"("reasoning_effort":5)", "reasoning_effort"},
       }) {
    const auto chat = read(bad.fields);
    ASSERT_FALSE(chat) << bad.fields;
    EXPECT_EQ(chat.error().param, bad.param) << bad.fields;
    EXPECT_EQ(error_status(chat.error()), 400) << bad.fields;
  }
}

TEST(OpenAiTools, AFormatBesideThem) {
  const auto chat = read(tools(kLight) + R"(,"response_format":{"type":"json_object"})");
  ASSERT_TRUE(chat);
  EXPECT_FALSE(chat->tools.empty());
  EXPECT_EQ(chat->schema, R"({"type":"object"})");
}

TEST(OpenAiTools, NotInCompletions) {
  for (const std::string& fields :
       {tools(kLight), std::string(R"("response_format":{"type":"json_object"})")}) {
    const auto parsed =
        parse_openai_request(OpenAiForm::Completion, R"({"prompt":"a",)" + fields + "}");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::Unsupported);
  }
}

}  // namespace
}  // namespace lares::server
