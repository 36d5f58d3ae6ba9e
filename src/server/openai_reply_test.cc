#include "server/openai_reply.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/json.h"
#include "server/openai_sink.h"

namespace lares::server {
namespace {

ReplyHead head(OpenAiForm form) {
  ReplyHead out;
  out.form = form;
  out.id = openai_id(form, JobId{12});
  out.model = "starter-chat";
  out.created = 1700000000;
  out.fingerprint = "lares-1";
  return out;
}

TextDelta delta(std::string text, Finish finish = Finish::None, std::uint32_t choice = 0) {
  TextDelta out;
  out.text = std::move(text);
  out.finish = finish;
  out.choice = choice;
  return out;
}

TokenLogprob token(std::string bytes, float logprob, std::vector<TokenText> top = {}) {
  return TokenLogprob{TokenText{std::move(bytes), logprob}, std::move(top)};
}

const Usage kUsage{5, 2, 3};

TEST(OpenAiReply, ChatStream) {
  StreamReply reply(head(OpenAiForm::Chat));
  std::string out;
  reply.append(out, delta("He said \"hi\"\n"));
  reply.append(out, delta("", Finish::Stop));
  reply.append_end(out, kUsage);
  EXPECT_EQ(
      out,
      R"(data: {"id":"chatcmpl-12","object":"chat.completion.chunk","created":1700000000,"model":"starter-chat","system_fingerprint":"lares-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-12","object":"chat.completion.chunk","created":1700000000,"model":"starter-chat","system_fingerprint":"lares-1","choices":[{"index":0,"delta":{"content":"He said \"hi\"\n"},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-12","object":"chat.completion.chunk","created":1700000000,"model":"starter-chat","system_fingerprint":"lares-1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}

data: [DONE]

)");
}

TEST(OpenAiReply, CompletionStreamWithUsageAndTwoChoices) {
  ReplyHead with_usage = head(OpenAiForm::Completion);
  with_usage.include_usage = true;
  StreamReply reply(with_usage);
  std::string out;
  reply.append(out, delta("a", Finish::None, 1));
  reply.append(out, delta("b", Finish::Length, 0));
  reply.append_end(out, kUsage);
  EXPECT_EQ(
      out,
      R"(data: {"id":"cmpl-12","object":"text_completion","created":1700000000,"model":"starter-chat","system_fingerprint":"lares-1","choices":[{"index":1,"text":"a","logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"cmpl-12","object":"text_completion","created":1700000000,"model":"starter-chat","system_fingerprint":"lares-1","choices":[{"index":0,"text":"b","logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"cmpl-12","object":"text_completion","created":1700000000,"model":"starter-chat","system_fingerprint":"lares-1","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length"}],"usage":null}

data: {"id":"cmpl-12","object":"text_completion","created":1700000000,"model":"starter-chat","system_fingerprint":"lares-1","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":2}}}

data: [DONE]

)");
}

TEST(OpenAiReply, WholeChatWithLogprobs) {
  ReplyHead with_logprobs = head(OpenAiForm::Chat);
  with_logprobs.want_logprobs = true;
  WholeReply reply(with_logprobs);
  TextDelta first = delta("\xc3\xa9");
  // Two tokens, each half of a code point.
  first.logprobs = {token("\xc3", -0.5F, {{"\xc3", -0.5F}, {"a", -1.25F}}), token("\xa9", -2)};
  reply.add(first);
  reply.add(delta("", Finish::Length));
  const std::string body = reply.body(kUsage);
  EXPECT_EQ(
      body,
      "{\"id\":\"chatcmpl-12\",\"object\":\"chat.completion\",\"created\":1700000000,"
      "\"model\":\"starter-chat\",\"system_fingerprint\":\"lares-1\",\"choices\":[{\"index\":0,"
      "\"message\":{\"role\":\"assistant\",\"content\":\"\xc3\xa9\",\"refusal\":null},"
      "\"logprobs\":{\"content\":["
      "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.5,\"bytes\":[195],\"top_logprobs\":["
      "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.5,\"bytes\":[195]},"
      "{\"token\":\"a\",\"logprob\":-1.25,\"bytes\":[97]}]},"
      "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-2,\"bytes\":[169],\"top_logprobs\":[]}],"
      "\"refusal\":null},\"finish_reason\":\"length\"}],"
      "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8,"
      "\"prompt_tokens_details\":{\"cached_tokens\":2}}}");
  EXPECT_TRUE(json::parse(body));
}

TEST(OpenAiReply, WholeCompletionWithLogprobsAndOffsets) {
  ReplyHead with_logprobs = head(OpenAiForm::Completion);
  with_logprobs.want_logprobs = true;
  WholeReply reply(with_logprobs);
  reply.add(delta("h\xc3\xa9"));  // An echoed prompt: text without log-probabilities.
  TextDelta next = delta("xy");
  next.logprobs = {token("x", -0.25F, {{"x", -0.25F}, {"z", -3}, {"x", -4}}),
                   token("y", -std::numeric_limits<float>::infinity())};
  reply.add(next);
  reply.add(delta("", Finish::Stop));
  const std::string body = reply.body(kUsage);
  const auto at = body.find("\"choices\"");
  EXPECT_EQ(body.substr(at, body.find(",\"usage\"") - at),
            "\"choices\":[{\"index\":0,\"text\":\"h\xc3\xa9xy\",\"logprobs\":{"
            "\"tokens\":[\"x\",\"y\"],\"token_logprobs\":[-0.25,-9999.0],"
            "\"top_logprobs\":[{\"x\":-0.25,\"z\":-3},{}],\"text_offset\":[2,3]},"
            "\"finish_reason\":\"stop\"}]");
  EXPECT_TRUE(json::parse(body)) << body;
}

TEST(OpenAiReply, StreamedOffsetsGoOn) {
  ReplyHead with_logprobs = head(OpenAiForm::Completion);
  with_logprobs.want_logprobs = true;
  StreamReply reply(with_logprobs);
  std::string out;
  TextDelta first = delta("ab");
  first.logprobs = {token("ab", -1)};
  reply.append(out, first);
  out.clear();
  TextDelta second = delta("c");
  second.logprobs = {token("c", -1)};
  reply.append(out, second);
  EXPECT_NE(out.find("\"text_offset\":[2]"), std::string::npos) << out;
}

TEST(OpenAiReply, ErrorEvent) {
  ApiError error;
  error.code = Code::Unavailable;
  error.message = "gone";
  std::string out;
  StreamReply::append_error(out, error);
  EXPECT_EQ(out,
            "data: {\"error\":{\"message\":\"gone\",\"type\":\"server_error\",\"param\":null,"
            "\"code\":\"unavailable\"}}\n\n");
}

TEST(OpenAiReply, IdsGoBothWays) {
  EXPECT_EQ(job_of_id("chatcmpl-12"), JobId{12});
  EXPECT_EQ(job_of_id("cmpl-12"), JobId{12});
  EXPECT_EQ(job_of_id("12"), JobId{12});
  for (const char* bad :
       {"", "chatcmpl-", "chatcmpl-x", "12x", "-1", "chatcmpl-cmpl-1", "99999999999999999999999"}) {
    EXPECT_EQ(job_of_id(bad), std::nullopt) << bad;
  }
}

TextDelta calls_delta(std::vector<CallDelta> calls) {
  TextDelta out;
  out.calls = std::move(calls);
  return out;
}

// What stands between "delta": and ,"logprobs" of each event.
std::vector<std::string> deltas_of(const std::string& stream) {
  std::vector<std::string> out;
  for (auto at = stream.find("\"delta\":"); at != std::string::npos;
       at = stream.find("\"delta\":", at + 1)) {
    const auto begin = at + 8;
    out.push_back(stream.substr(begin, stream.find(",\"logprobs\"", begin) - begin));
  }
  return out;
}

TEST(OpenAiReply, CallsAndThoughtsInAStream) {
  StreamReply reply(head(OpenAiForm::Chat));
  std::string out;
  TextDelta thought;
  thought.reasoning = "Hm";
  reply.append(out, thought);
  TextDelta both = delta("Wait.");
  both.reasoning = ".";
  reply.append(out, both);
  reply.append(out, calls_delta({{0, "a1", "light", "{"}}));
  reply.append(out, calls_delta({{0, "", "", "}"}, {1, "a2", "clock", ""}}));
  reply.append(out, delta("", Finish::ToolCalls));
  EXPECT_EQ(
      deltas_of(out),
      (std::vector<std::string>{
          R"({"role":"assistant","content":""})", R"({"reasoning_content":"Hm"})",
          R"({"reasoning_content":".","content":"Wait."})",
          R"({"tool_calls":[{"index":0,"id":"a1","type":"function","function":{"name":"light","arguments":"{"}}]})",
          R"({"tool_calls":[{"index":0,"function":{"arguments":"}"}},{"index":1,"id":"a2","type":"function","function":{"name":"clock","arguments":""}}]})",
          "{}"}));
  EXPECT_NE(out.find("\"finish_reason\":\"tool_calls\""), std::string::npos);
}

TEST(OpenAiReply, CallsAndThoughtsAtOnce) {
  WholeReply reply(head(OpenAiForm::Chat));
  TextDelta thought;
  thought.reasoning = "Hm";
  reply.add(thought);
  reply.add(calls_delta({{0, "a1", "light", "{"}}));
  reply.add(calls_delta({{0, "", "", "}"}}));
  reply.add(delta("", Finish::ToolCalls));
  const std::string body = reply.body(kUsage);
  EXPECT_NE(
      body.find(
          R"("message":{"role":"assistant","content":null,"refusal":null,"reasoning_content":"Hm","tool_calls":[{"id":"a1","type":"function","function":{"name":"light","arguments":"{}"}}]})"),
      std::string::npos)
      << body;
  EXPECT_NE(body.find("\"finish_reason\":\"tool_calls\""), std::string::npos);
}

}  // namespace
}  // namespace lares::server
