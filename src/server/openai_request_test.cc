#include "server/openai_request.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

tl::expected<OpenAiRequest, ApiError> chat(const std::string& fields) {
  return parse_openai_request(OpenAiForm::Chat, R"({"messages":[{"role":"user","content":"hi"}])" +
                                                    (fields.empty() ? "" : "," + fields) + "}");
}

tl::expected<OpenAiRequest, ApiError> completion(const std::string& fields) {
  return parse_openai_request(OpenAiForm::Completion, "{" + fields + "}");
}

std::string messages_of(const std::string& messages) {
  const auto parsed = parse_openai_request(OpenAiForm::Chat, "{\"messages\":" + messages + "}");
  return parsed ? std::get<ChatPrompt>(parsed->generation.prompt).messages : parsed.error().message;
}

TEST(OpenAiRequest, Defaults) {
  const auto parsed = chat("");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Generation& g = parsed->generation;
  EXPECT_EQ(g.model, "");
  EXPECT_EQ(g.n, 1U);
  EXPECT_FALSE(g.max_tokens || g.seed || parsed->stream || parsed->include_usage || g.echo);
  EXPECT_EQ(g.sampling.temperature, engine::Sampling().temperature);
  EXPECT_EQ(std::get<ChatPrompt>(g.prompt).messages, R"([{"role":"user","content":"hi"}])");
}

TEST(OpenAiRequest, EveryField) {
  const auto parsed = chat(
      R"("model":"m","max_tokens":7,"temperature":0,"top_p":0.5,"top_k":3,"min_p":0.1,)"
      R"("presence_penalty":1,"frequency_penalty":-1,"repeat_penalty":1.5,"repeat_last_n":9,)"
      R"("seed":42,"stop":["a","b"],"n":3,"logprobs":true,"top_logprobs":5,"ignore_eos":true,)"
      R"("logit_bias":{"15":-100,"7":2.5},"stream":true,"stream_options":{"include_usage":true},)"
      R"("user":"u","metadata":{"a":1},"store":false,"cache_prompt":true,"unknown":[],)"
      R"("chat_template_kwargs":{"enable_thinking":false},"tools":[],"tool_choice":"none",)"
      R"("response_format":{"type":"text"})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Generation& g = parsed->generation;
  const engine::Sampling& s = g.sampling;
  EXPECT_EQ(g.model, "m");
  EXPECT_EQ(g.max_tokens, 7U);
  EXPECT_EQ(g.seed, 42U);
  EXPECT_EQ(g.n, 3U);
  EXPECT_EQ(g.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.temperature, 0.0F);
  EXPECT_EQ(s.top_p, 0.5F);
  EXPECT_EQ(s.top_k, 3U);
  EXPECT_EQ(s.min_p, 0.1F);
  EXPECT_EQ(s.presence_penalty, 1.0F);
  EXPECT_EQ(s.frequency_penalty, -1.0F);
  EXPECT_EQ(s.repeat_penalty, 1.5F);
  EXPECT_EQ(s.penalty_window, 9U);
  EXPECT_TRUE(s.want_logprob && s.ignore_eos && parsed->stream && parsed->include_usage);
  EXPECT_EQ(s.logprobs, 5);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<std::int32_t, float>>{{15, -100.0F}, {7, 2.5F}}));
  EXPECT_EQ(std::get<ChatPrompt>(g.prompt).options, R"({"enable_thinking":false})");
}

TEST(OpenAiRequest, NamesAndSpecialValues) {
  EXPECT_EQ(chat(R"("max_tokens":5,"max_completion_tokens":6)")->generation.max_tokens, 6U);
  EXPECT_EQ(chat(R"("repetition_penalty":1.25)")->generation.sampling.repeat_penalty, 1.25F);
  EXPECT_EQ(chat(R"("top_k":-1)")->generation.sampling.top_k, 0U);
  EXPECT_EQ(chat(R"("seed":-1)")->generation.seed, std::nullopt);
  EXPECT_EQ(chat(R"("seed":18446744073709551615)")->generation.seed, 18446744073709551615ULL);
  EXPECT_EQ(chat(R"("stop":"x")")->generation.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(chat(R"("temperature":null,"stop":null,"n":null,"tools":null,"stream":null)"));
  EXPECT_FALSE(chat(R"("stream_options":{"include_usage":true})")->include_usage);
}

TEST(OpenAiRequest, MessagesAreNormalised) {
  EXPECT_EQ(messages_of(R"([{"role":"developer","content":"d","x":1},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f"}}]},
      {"content":"r","role":"tool","tool_call_id":"1","name":"f"}])"),
            R"([{"role":"system","content":"d"},{"role":"user","content":"ab"},)"
            R"({"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function",)"
            R"("function":{"name":"f","arguments":"{}"}}]},)"
            R"({"role":"tool","content":"r","name":"f","tool_call_id":"1"}])");
}

TEST(OpenAiRequest, BadMessages) {
  EXPECT_EQ(messages_of("[]"), "messages must hold 1 to 4096 messages, not 0");
  EXPECT_EQ(messages_of("null"), R"(messages is required: an array of {"role", "content"})");
  EXPECT_EQ(messages_of("\"hi\""), "messages must be an array, not a string");
  EXPECT_EQ(messages_of("[5]"), "messages[0] must be an object, not a number");
  EXPECT_EQ(messages_of(R"([{"content":"x"}])"), "messages[0].role is required");
  EXPECT_EQ(messages_of(R"([{"role":"usr","content":"x"}])"),
            "messages[0].role must be one of system, developer, user, assistant, tool. Did you "
            "mean `user`?");
  EXPECT_EQ(messages_of(R"([{"role":"user","content":5}])"),
            "messages[0].content must be a string or an array of text parts, not a number");
  EXPECT_EQ(messages_of(R"([{"role":"user"}])"),
            "messages[0].content is required: a string or an array of text parts");
  EXPECT_EQ(
      messages_of(R"([{"role":"user","content":"a"},{"role":"user",
      "content":[{"type":"image_url","image_url":{"url":"x"}}]}])"),
      R"(messages[1].content[0].type must be "text": this server reads no `image_url` parts)");
}

struct Bad {
  const char* fields;
  const char* param;
};

TEST(OpenAiRequest, WrongTypesAndRangesNameTheField) {
  for (const Bad& bad : std::vector<Bad>{
           {R"("model":5)", "model"},
           {R"("max_tokens":0)", "max_tokens"},
           {R"("max_tokens":-3)", "max_tokens"},
           {R"("max_tokens":"10")", "max_tokens"},
           {R"("max_completion_tokens":0)", "max_completion_tokens"},
           {R"("max_tokens":99999999999)", "max_tokens"},
           {R"("temperature":2.1)", "temperature"},
           {R"("temperature":"hot")", "temperature"},
           {R"("top_p":-0.1)", "top_p"},
           {R"("top_k":-2)", "top_k"},
           {R"("min_p":1.5)", "min_p"},
           {R"("presence_penalty":3)", "presence_penalty"},
           {R"("repeat_penalty":0)", "repeat_penalty"},
           {R"("seed":1.5)", "seed"},
           {R"("n":0)", "n"},
           {R"("n":17)", "n"},
           {R"("stop":5)", "stop"},
           {R"("stop":[1])", "stop"},
           {R"("stop":"")", "stop"},
           {R"("stop":["1","2","3","4","5","6","7","8","9","0","a","b","c","d","e","f","g"])",
            "stop"},
           {R"("logprobs":1)", "logprobs"},
           {R"("top_logprobs":2)", "top_logprobs"},
           {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
           {R"("ignore_eos":"yes")", "ignore_eos"},
           {R"("stream":1)", "stream"},
           {R"("stream_options":true)", "stream_options"},
           {R"("stream":true,"stream_options":{"include_usage":1})",
            "stream_options.include_usage"},
           {R"("logit_bias":[1])", "logit_bias"},
           {R"("logit_bias":{"x":1})", "logit_bias"},
           {R"("logit_bias":{"1":200})", "logit_bias"},
           {R"("logit_bias":{"-1":1})", "logit_bias"},
       }) {
    const auto parsed = chat(bad.fields);
    ASSERT_FALSE(parsed) << bad.fields;
    EXPECT_EQ(parsed.error().param, bad.param) << bad.fields;
    EXPECT_EQ(error_status(parsed.error()), 400) << bad.fields;
    EXPECT_TRUE(parsed.error().message.starts_with(bad.param)) << parsed.error().message;
  }
}

TEST(OpenAiRequest, UnsupportedIsSaid) {
  for (const Bad& bad : std::vector<Bad>{
           {R"("functions":[{}])", "functions"},
           {R"("best_of":2)", "best_of"},
       }) {
    const auto parsed = chat(bad.fields);
    ASSERT_FALSE(parsed) << bad.fields;
    EXPECT_EQ(parsed.error().code, Code::Unsupported) << bad.fields;
    EXPECT_EQ(parsed.error().param, bad.param) << bad.fields;
  }
}

TEST(OpenAiRequest, Prompts) {
  EXPECT_EQ(std::get<TextPrompt>(completion(R"("prompt":"a")")->generation.prompt).text, "a");
  EXPECT_EQ(std::get<TextPrompt>(completion(R"("prompt":["a"])")->generation.prompt).text, "a");
  const std::vector<std::int32_t> tokens{1, 2, 3};
  EXPECT_EQ(std::get<TokenPrompt>(completion(R"("prompt":[1,2,3])")->generation.prompt).tokens,
            tokens);
  EXPECT_EQ(std::get<TokenPrompt>(completion(R"("prompt":[[1,2,3]])")->generation.prompt).tokens,
            tokens);
  EXPECT_TRUE(completion(R"("prompt":"a","echo":true)")->generation.echo);
  for (const char* bad :
       {R"("prompt":"")", R"("prompt":[])", R"("prompt":["a","b"])", R"("prompt":[1,"a"])",
        R"("prompt":[-1])", R"("prompt":[1.5])", R"("prompt":[[]])", R"("prompt":5)",
        R"("model":"m")", R"("prompt":[4294967296])", R"("prompt":[{}])"}) {
    const auto parsed = completion(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().param, "prompt") << bad;
  }
  const auto logprobs = completion(R"("prompt":"a","logprobs":0)");
  EXPECT_TRUE(logprobs->generation.sampling.want_logprob);
  EXPECT_EQ(logprobs->generation.sampling.logprobs, 0);
}

TEST(OpenAiRequest, BodiesThatAreNotJson) {
  for (const std::string& body : {std::string(""), std::string("hello"), std::string("[]"),
                                  std::string("\"\xff\""), std::string(100, '[')}) {
    const auto parsed = parse_openai_request(OpenAiForm::Chat, body);
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(error_status(parsed.error()), 400) << body;
  }
  EXPECT_EQ(parse_openai_request(OpenAiForm::Chat, "{\"a\":}").error().error_code, "invalid_json");
}

}  // namespace
}  // namespace lares::server
