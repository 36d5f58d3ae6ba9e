#include "server/telemetry.h"

#include <gtest/gtest.h>

#include "core/json.h"

namespace lares::server {
namespace {

using std::chrono::milliseconds;

class Names final : public Resolver {
 public:
  Result<std::vector<NetAddress>> resolve(const std::string& host) override {
    if (host != "127.0.0.1") return fail(Code::Unavailable, "not found");
    return std::vector{*parse_address(host)};
  }
};

struct Collector {
  std::vector<std::string> targets, bodies;
  int status = 200;
  bool away = false;
};

class Wire final : public Transport {
 public:
  explicit Wire(Collector& collector) : collector_(collector) {}
  Result<int> post(const WebhookUrl& url, const NetAddress&, const Headers&,
                   const std::string& body, Duration) override {
    collector_.targets.push_back(url.target);
    collector_.bodies.push_back(body);
    if (collector_.away) return fail(Code::Unavailable, "nobody there");
    return collector_.status;
  }

 private:
  Collector& collector_;
};

store::UsageRow chat_row(std::uint64_t job) {
  store::UsageRow row;
  row.job = job;
  row.accepted_unix_ms = 1'700'000'000'123;
  row.member_id = MemberId{4};
  row.member = "ana";
  row.cls = "voice";
  row.model = "starter-\"chat\"";
  row.operation = "chat";
  row.prompt_tokens = 20;
  row.cached_tokens = 16;
  row.output_tokens = 5;
  row.device = milliseconds(30);
  row.clocks.text_work = milliseconds(1);
  row.clocks.queue_wait = milliseconds(10);
  row.clocks.prefill = milliseconds(20);
  row.clocks.inference = milliseconds(40);
  row.clocks.first_token = milliseconds(32);
  row.clocks.total = milliseconds(75);
  return row;
}

TracesOptions quiet(std::string endpoint = "http://127.0.0.1:4318") {
  return {.endpoint = std::move(endpoint),
          .version = "1.2",
          .queue_max = 5,
          .batch_max = 2,
          .tries_max = 3,
          .own_thread = false};
}

double counted(Metrics& metrics, std::string_view result) {
  return metrics.counter("lares_traces_total", "", label("result", result)).value();
}

class TracesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Traces> traces(TracesOptions options = quiet()) {
    return std::make_unique<Traces>(std::make_unique<Names>(), std::make_unique<Wire>(collector_),
                                    std::move(options), metrics_);
  }
  Collector collector_;
  Metrics metrics_;
};

TEST(TracesJson, Golden) {
  const std::vector<store::UsageRow> rows{chat_row(7)};
  EXPECT_EQ(
      traces_json(rows, "1.2"),
      R"({"resourceSpans":[{"resource":{"attributes":[)"
      R"({"key":"service.name","value":{"stringValue":"lares"}},)"
      R"({"key":"service.version","value":{"stringValue":"1.2"}}]},)"
      R"("scopeSpans":[{"scope":{"name":"lares","version":"1.2"},"spans":[)"
      R"({"traceId":"740a7da59d5b84dfdf0c8d07117be3cd","spanId":"d5bf883105cabea1","name":"chat starter-\"chat\"","kind":2,)"
      R"("startTimeUnixNano":"1700000000123000000","endTimeUnixNano":"1700000000198000000",)"
      R"("attributes":[)"
      R"({"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},)"
      R"({"key":"gen_ai.provider.name","value":{"stringValue":"lares"}},)"
      R"({"key":"gen_ai.request.model","value":{"stringValue":"starter-\"chat\""}},)"
      R"({"key":"gen_ai.usage.input_tokens","value":{"intValue":"20"}},)"
      R"({"key":"gen_ai.usage.output_tokens","value":{"intValue":"5"}},)"
      R"({"key":"lares.cached_tokens","value":{"intValue":"16"}},)"
      R"({"key":"lares.class","value":{"stringValue":"voice"}},)"
      R"({"key":"lares.member_id","value":{"intValue":"4"}},)"
      R"({"key":"lares.outcome","value":{"stringValue":"done"}},)"
      R"({"key":"lares.device_s","value":{"doubleValue":0.03}},)"
      R"({"key":"lares.first_token_s","value":{"doubleValue":0.032}}],"status":{}},)"
      R"({"traceId":"740a7da59d5b84dfdf0c8d07117be3cd","spanId":"a22a6420e7493e33","parentSpanId":"d5bf883105cabea1","name":"text","kind":1,)"
      R"("startTimeUnixNano":"1700000000124000000","endTimeUnixNano":"1700000000125000000"},)"
      R"({"traceId":"740a7da59d5b84dfdf0c8d07117be3cd","spanId":"edd383f079fae04d","parentSpanId":"d5bf883105cabea1","name":"queue","kind":1,)"
      R"("startTimeUnixNano":"1700000000125000000","endTimeUnixNano":"1700000000135000000"},)"
      R"({"traceId":"740a7da59d5b84dfdf0c8d07117be3cd","spanId":"b73d6a721d980857","parentSpanId":"d5bf883105cabea1","name":"prefill","kind":1,)"
      R"("startTimeUnixNano":"1700000000135000000","endTimeUnixNano":"1700000000155000000"},)"
      R"({"traceId":"740a7da59d5b84dfdf0c8d07117be3cd","spanId":"23f60e12265b7275","parentSpanId":"d5bf883105cabea1","name":"inference","kind":1,)"
      R"("startTimeUnixNano":"1700000000155000000","endTimeUnixNano":"1700000000195000000"}]}]}]})");
}

const json::Array& spans_in(const json::Value& body) {
  const json::Value& scopes = body.find("resourceSpans")
                                  ->as<json::Array>()
                                  ->front()
                                  .find("scopeSpans")
                                  ->as<json::Array>()
                                  ->front();
  return *scopes.find("spans")->as<json::Array>();
}

const std::string& at(const json::Value& span, std::string_view name) {
  return *span.find(name)->as<std::string>();
}

TEST(TracesJson, FailuresSayWhyAndAttemptsShareATrace) {
  std::vector<store::UsageRow> rows{chat_row(7), chat_row(8), chat_row(9)};
  rows[0].job_id = rows[1].job_id = "job_1";
  rows[1].outcome = store::Outcome::Failed;
  rows[1].reason = "worker_lost";
  rows[2].outcome = store::Outcome::Refused;
  rows[2].clocks = {.total = milliseconds(1)};
  const auto body = json::parse(traces_json(rows, "1"));
  ASSERT_TRUE(body.has_value());
  const json::Array& spans = spans_in(*body);
  ASSERT_EQ(spans.size(), 5U + 5U + 1U);
  EXPECT_EQ(at(spans[0], "traceId"), at(spans[5], "traceId"));
  EXPECT_NE(at(spans[0], "spanId"), at(spans[5], "spanId"));
  EXPECT_NE(at(spans[0], "traceId"), at(spans[10], "traceId"));
  EXPECT_EQ(spans[5].find("status")->find("code")->integer(), 2);
  EXPECT_EQ(at(*spans[5].find("status"), "message"), "worker_lost");
  for (const json::Value& span : spans) {
    EXPECT_EQ(at(span, "traceId").size(), 32U);
    EXPECT_EQ(at(span, "spanId").size(), 16U);
    EXPECT_LE(at(span, "startTimeUnixNano"), at(span, "endTimeUnixNano"));
  }
}

TEST_F(TracesTest, BatchesInOrder) {
  const auto t = traces();
  for (std::uint64_t i = 1; i <= 3; ++i) t->ended(chat_row(i));
  EXPECT_TRUE(t->send_next());
  EXPECT_TRUE(t->send_next());
  EXPECT_FALSE(t->send_next());
  ASSERT_EQ(collector_.bodies.size(), 2U);
  const std::vector<store::UsageRow> first{chat_row(1), chat_row(2)};
  EXPECT_EQ(collector_.bodies[0], traces_json(first, "1.2"));
  EXPECT_EQ(collector_.targets[0], "/v1/traces");
  EXPECT_EQ(counted(metrics_, "sent"), 3);
  EXPECT_EQ(counted(metrics_, "dropped"), 0);
}

TEST_F(TracesTest, ACollectorThatIsAwayIsAskedAgainThenLosesThem) {
  const auto t = traces();
  collector_.away = true;
  for (std::uint64_t i = 1; i <= 7; ++i) t->ended(chat_row(i));
  EXPECT_EQ(counted(metrics_, "dropped"), 2);  // There was room for five.
  EXPECT_FALSE(t->send_next());
  EXPECT_FALSE(t->send_next());
  EXPECT_EQ(counted(metrics_, "dropped"), 2);
  EXPECT_FALSE(t->send_next());  // The third and last try of the first two.
  EXPECT_EQ(counted(metrics_, "dropped"), 4);
  collector_.away = false;
  EXPECT_TRUE(t->send_next());
  const std::vector<store::UsageRow> next{chat_row(3), chat_row(4)};
  EXPECT_EQ(collector_.bodies.back(), traces_json(next, "1.2"));
  EXPECT_EQ(counted(metrics_, "sent"), 2);
}

TEST_F(TracesTest, WhatTheCollectorRefusesIsNotTriedAgainButWhatItPutsOffIs) {
  const auto t = traces();
  t->ended(chat_row(1));
  collector_.status = 503;
  EXPECT_FALSE(t->send_next());
  EXPECT_EQ(counted(metrics_, "dropped"), 0);
  collector_.status = 400;
  EXPECT_FALSE(t->send_next());
  EXPECT_EQ(counted(metrics_, "dropped"), 1);
  EXPECT_FALSE(t->send_next());
  EXPECT_EQ(collector_.bodies.size(), 2U);
}

TEST_F(TracesTest, NothingWithoutAnEndpoint) {
  const auto t = traces(quiet(""));
  t->ended(chat_row(1));
  EXPECT_FALSE(t->send_next());
  EXPECT_TRUE(collector_.bodies.empty());
  EXPECT_EQ(counted(metrics_, "dropped"), 0);
}

TEST_F(TracesTest, PathsOfEndpoints) {
  for (const auto& [endpoint, target] : std::vector<std::pair<std::string, std::string>>{
           {"http://127.0.0.1:4318/", "/v1/traces"},
           {"http://127.0.0.1/otlp", "/otlp/v1/traces"},
           {"http://127.0.0.1/v1/traces", "/v1/traces"}}) {
    const auto t = traces(quiet(endpoint));
    t->ended(chat_row(1));
    EXPECT_TRUE(t->send_next());
    EXPECT_EQ(collector_.targets.back(), target) << endpoint;
  }
}

TEST_F(TracesTest, ItsThreadSendsWhatIsLeftAtTheEnd) {
  TracesOptions options = quiet();
  options.own_thread = true;
  options.every = std::chrono::hours(1);
  auto t = traces(options);
  t->ended(chat_row(1));
  t.reset();
  EXPECT_EQ(counted(metrics_, "sent"), 1);
}

}  // namespace
}  // namespace lares::server
