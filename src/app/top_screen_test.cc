#include "app/top_screen.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/text.h"

namespace lares::app {
namespace {

constexpr std::string_view kTimeline =
    R"({"object":"timeline","now":100,"next":2,"steps":[
      {"n":1,"start":91,"end":93,"device_s":2,"model":"m","steps":9,"tokens":40,
       "shares":[{"member":"ana","class":"chat","device_s":1.5},
                 {"member":null,"class":null,"device_s":0.5}]},
      {"n":2,"start":96,"end":98,"device_s":1,"model":"m","steps":9,"tokens":10,
       "shares":[{"member":"ana","class":"chat","device_s":1}]}]})";
constexpr std::string_view kQueue =
    R"({"object":"queue","jobs":[
      {"id":"2","state":"queued","member":"ana","class":"agent","model":"m","waited_s":75.2,
       "prompt_tokens":7,"output_tokens":0,"position":1,"reason":"behind 1","estimate_s":0.25},
      {"id":"1","state":"running","member":"ana","class":"chat","model":"m","waited_s":2.5,
       "prompt_tokens":12,"output_tokens":34}],"others":{"queued":3,"running":1}})";
constexpr std::string_view kMemory =
    R"({"object":"memory","devices":[{"name":"cpu","total":1000,"budget":900,"weights":500,"kv":100,
      "compute":50,"leases":0,"cache":50,"free":300}],"host":{"budget":0,"saved":0},"models":[]})";
constexpr std::string_view kModels =
    R"({"object":"list","data":[{"id":"m","state":"ready"},{"id":"p","state":"available"}]})";

TopScreen screen() {
  TopScreen out("http://127.0.0.1:8080");
  EXPECT_TRUE(out.take_me(R"({"object":"member","name":"ana"})"));
  EXPECT_TRUE(out.take_timeline(kTimeline));
  EXPECT_TRUE(out.take_queue(kQueue));
  EXPECT_TRUE(out.take_memory(kMemory));
  EXPECT_TRUE(out.take_models(kModels));
  return out;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

TEST(TopScreen, SaysWhatTheServerSaid) {
  const std::string text = joined(screen().lines({.columns = 120}, "12:00:00", ""));
  EXPECT_NE(text.find("lares top  http://127.0.0.1:8080  ana  12:00:00"), std::string::npos)
      << text;
  EXPECT_NE(text.find(" 30 %   5 tokens/s   running 2   waiting 4"), std::string::npos) << text;
  EXPECT_NE(text.find("ana 83 %  others 17 %"), std::string::npos) << text;
  EXPECT_NE(text.find("weights 500 B"), std::string::npos) << text;
  EXPECT_NE(text.find("m ready, p available"), std::string::npos) << text;
  const auto running = text.find("ana     chat   m");
  EXPECT_NE(running, std::string::npos) << text;
  EXPECT_LT(running, text.find("agent")) << "what runs comes first";
  EXPECT_NE(text.find("1m15s"), std::string::npos) << text;
  EXPECT_NE(text.find("behind 1"), std::string::npos) << text;
}

TEST(TopScreen, FitsIntoTheWindow) {
  TopScreen top = screen();
  std::string jobs;
  for (int i = 0; i < 100; ++i) {
    jobs += (i == 0 ? "" : ",") +
            std::string(R"({"id":"1","state":"running","member":"ana","class":"chat",)") +
            R"("model":"m","waited_s":2.5,"prompt_tokens":12,"output_tokens":34})";
  }
  ASSERT_TRUE(top.take_queue(R"({"object":"queue","jobs":[)" + jobs +
                             R"(],"others":{"queued":0,"running":0}})"));
  for (const std::size_t columns : {20U, 47U, 80U, 200U}) {
    const auto plain = top.lines({.columns = columns, .rows = 24}, "12:00:00", "no server");
    EXPECT_EQ(plain.size(), 24U);
    for (const std::string& line : plain) EXPECT_LE(columns_of(line), columns) << line;
    EXPECT_EQ(plain[1], cut_to("no server", columns));
    EXPECT_NE(plain.back().find("more"), std::string::npos);
    const auto coloured = top.lines({.columns = columns, .rows = 24, .colours = true}, "", "");
    for (const std::string& line : coloured) {
      const auto last = line.rfind("\x1b[");
      if (last == std::string::npos) continue;
      EXPECT_EQ(line.substr(last, 4), "\x1b[0m") << "no colour is left behind";
    }
  }
}

TEST(TopScreen, StepsGrowAndServersBeginAnew) {
  TopScreen top = screen();
  EXPECT_EQ(top.next(), 2);
  ASSERT_TRUE(top.take_timeline(
      R"({"object":"timeline","now":100,"next":2,"steps":[{"n":2,"start":96,"end":100,"device_s":4,
         "model":"m","steps":9,"tokens":10,"shares":[]}]})"));
  EXPECT_NE(top.to_json().find("\"busy\":0.6000"), std::string::npos) << top.to_json();
  ASSERT_TRUE(top.take_timeline(R"({"object":"timeline","now":1,"next":0,"steps":[]})"));
  EXPECT_NE(top.to_json().find("\"busy\":0.0000"), std::string::npos);
}

TEST(TopScreen, JsonIsJson) {
  const auto parsed = json::parse(screen().to_json());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->find("running")->integer(), 2);
  EXPECT_EQ(parsed->find("waiting")->integer(), 4);
  EXPECT_EQ(parsed->find("device")->find("busy")->number(), 0.3);
  EXPECT_EQ(parsed->find("queue")->find("jobs")->as<json::Array>()->size(), 2U);
  EXPECT_TRUE(json::parse(TopScreen("x").to_json())) << "before anything was heard";
}

TEST(TopScreen, AnotherServersWordsAreRefused) {
  TopScreen top("x");
  EXPECT_EQ(top.take_queue("{}").error().code, Code::Corrupt);
  EXPECT_EQ(top.take_timeline("hello").error().code, Code::Corrupt);
}

TEST(TopScreen, NamesCannotSteerTheTerminal) {
  TopScreen top = screen();
  ASSERT_TRUE(
      top.take_models("{\"object\":\"list\",\"data\":[{\"id\":\"a\\u001b[2J\",\"state\":\"x\"}]}"));
  EXPECT_EQ(joined(top.lines({.columns = 120}, "", "")).find('\x1b'), std::string::npos);
}

TEST(CutTo, CountsWhatIsSeen) {
  EXPECT_EQ(cut_to("abc", 2), "ab");
  EXPECT_EQ(cut_to("äöü", 2), "äö");
  EXPECT_EQ(cut_to("\x1b[1mabc\x1b[0m", 3), "\x1b[1mabc\x1b[0m");
  EXPECT_EQ(cut_to("\x1b[1mabc\x1b[0m", 2), "\x1b[1mab\x1b[0m");
}

}  // namespace
}  // namespace lares::app
