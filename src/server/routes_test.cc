// The routes over real sockets, with a service whose answers the test gives.
#include "server/routes.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "core/json.h"
#include "server/raw_client.h"

namespace lares::server {
namespace {

struct Submitted {
  JobId job;
  Generation generation;
  std::shared_ptr<GenerationSink> sink;
};

class FakeService : public Service {
 public:
  JobId submit(Generation generation, std::shared_ptr<GenerationSink> sink) override {
    const JobId job{++last_};
    if (at_once) {  // Faster than submit() returns.
      sink->on_event(Accepted{"starter-chat"});
      TextDelta delta;
      delta.text = "fast";
      delta.finish = Finish::Stop;
      sink->on_event(delta);
      sink->on_event(Ended{});
      return job;
    }
    const std::scoped_lock lock(mutex_);
    known_.insert(job.value);
    submitted_.push_back(Submitted{job, std::move(generation), std::move(sink)});
    changed_.notify_all();
    return job;
  }
  bool cancel(JobId job) override {
    const std::scoped_lock lock(mutex_);
    const bool known = known_.erase(job.value) != 0;
    if (known) cancelled_.insert(job.value);
    changed_.notify_all();
    return known;
  }
  [[nodiscard]] std::vector<ModelStatus> models() const override {
    ModelStatus good;
    good.name = "starter-chat";
    good.state = "ready";
    good.context = 4096;
    ModelStatus bad;
    bad.name = "folder/broken.gguf";
    bad.state = "failed";
    bad.error = "it ends in the middle of a \"tensor\"";
    return {good, bad};
  }
  [[nodiscard]] ServiceStatus status() const override {
    const std::scoped_lock lock(mutex_);
    return status_;
  }

  void set_status(ServiceStatus status) {
    const std::scoped_lock lock(mutex_);
    status_ = std::move(status);
  }
  Submitted take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kLimit, [this] { return !submitted_.empty(); })) {
      ADD_FAILURE() << "nothing was submitted";
      return {};
    }
    Submitted out = std::move(submitted_.front());
    submitted_.pop_front();
    return out;
  }
  bool wait_cancelled(JobId job) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return cancelled_.contains(job.value); });
  }

  bool at_once = false;

 private:
  static constexpr auto kLimit = std::chrono::seconds(20);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Submitted> submitted_;
  std::set<std::uint64_t> known_;
  std::set<std::uint64_t> cancelled_;
  ServiceStatus status_;
  std::uint64_t last_ = 0;
};

class RoutesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RouteOptions options;
    options.now = [] { return Instant{}; };
    options.unix_seconds = [] { return std::uint64_t{1700000000}; };
    options.access = std::make_shared<Access>(Reach::Loopback);
    options.usage = [this](store::UsageBy by,
                           std::optional<MemberId>) -> Result<std::vector<store::UsageSum>> {
      usage_thread_ = std::this_thread::get_id();
      if (by == store::UsageBy::Day) return fail(Code::Io, "the disk is gone");
      store::UsageSum sum;
      sum.key = by == store::UsageBy::Model ? "starter-chat" : "home";
      sum.requests = 3;
      sum.device_s = 1.5;
      return std::vector<store::UsageSum>{sum};
    };
    HttpOptions http;
    http.port = 0;
    auto server = HttpServer::create(http, make_routes(service_, metrics_, std::move(options)));
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  [[nodiscard]] RawClient client() const { return RawClient(server_->port()); }
  RawResponse ask(std::string_view request) const { return client().ask(request); }
  // Body of a chat request, with more fields.
  static std::string chat(const std::string& fields = "") {
    return post("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}");
  }
  static TextDelta delta(std::string text, Finish finish = Finish::None) {
    TextDelta out;
    out.text = std::move(text);
    out.finish = finish;
    return out;
  }
  static Ended failed(Code code, std::string message, std::string error_code) {
    Ended out;
    out.error = Error{code, std::move(message)};
    out.error_code = std::move(error_code);
    return out;
  }
  static std::string code_of(const RawResponse& response) {
    const auto body = json::parse(response.body);
    const json::Value* error = body ? body->find("error") : nullptr;
    const json::Value* code = error == nullptr ? nullptr : error->find("code");
    return code == nullptr ? "no error: " + response.body : *code->as<std::string>();
  }

  FakeService service_;
  Metrics metrics_;
  std::thread::id usage_thread_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(RoutesTest, WholeChat) {
  RawClient c = client();
  c.send(chat(R"(,"model":"m","max_tokens":3)"));
  const Submitted job = service_.take();
  EXPECT_EQ(job.generation.model, "m");
  EXPECT_EQ(job.generation.max_tokens, 3U);
  EXPECT_EQ(job.generation.cls, "chat");
  job.sink->on_event(Accepted{"starter-chat"});
  job.sink->on_event(delta("Hel"));
  job.sink->on_event(delta("lo", Finish::Stop));
  job.sink->on_event(Ended{Usage{4, 1, 2}, {}, ""});
  const RawResponse response = c.response();
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.head.find("X-Request-Id: 1\r\n"), std::string::npos) << response.head;
  EXPECT_EQ(response.body,
            R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,)"
            R"("model":"starter-chat","system_fingerprint":"lares","choices":[{"index":0,)"
            R"("message":{"role":"assistant","content":"Hello","refusal":null},)"
            R"("logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":4,)"
            R"("completion_tokens":2,"total_tokens":6,)"
            R"("prompt_tokens_details":{"cached_tokens":1}}})");
}

TEST_F(RoutesTest, StreamedChat) {
  RawClient c = client();
  c.send(chat(R"(,"stream":true)"));
  const Submitted job = service_.take();
  job.sink->on_event(Accepted{"starter-chat"});
  const RawResponse head = c.head();
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.head.find("text/event-stream"), std::string::npos);
  EXPECT_NE(head.head.find("X-Request-Id: 1\r\n"), std::string::npos);
  job.sink->on_event(delta("Hello"));
  EXPECT_NE(c.read_chunk().find(R"("delta":{"content":"Hello"})"), std::string::npos);
  job.sink->on_event(delta("", Finish::Length));
  EXPECT_NE(c.read_chunk().find(R"("finish_reason":"length")"), std::string::npos);
  job.sink->on_event(Ended{});
  EXPECT_EQ(c.read_chunk(), "data: [DONE]\n\n");
  EXPECT_EQ(c.read_chunk(), "");
}

TEST_F(RoutesTest, EventsFasterThanSubmit) {
  service_.at_once = true;
  const RawResponse response = ask(chat());
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.body.find("\"id\":\"chatcmpl-1\""), std::string::npos);
  EXPECT_NE(response.body.find("fast"), std::string::npos);
  EXPECT_NE(response.head.find("X-Request-Id: 1\r\n"), std::string::npos);
}

TEST_F(RoutesTest, ARefusalHasItsStatusAlsoForAStream) {
  RawClient c = client();
  c.send(chat(R"(,"stream":true,"model":"nope")"));
  service_.take().sink->on_event(failed(Code::NotFound, "there is no nope", "model_not_found"));
  const RawResponse response = c.response();
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(code_of(response), "model_not_found");
  EXPECT_NE(response.head.find("X-Request-Id: 1\r\n"), std::string::npos);
}

TEST_F(RoutesTest, AFailureInAStreamIsAnEventAndNoEndMark) {
  RawClient c = client();
  c.send(chat(R"(,"stream":true)"));
  const Submitted job = service_.take();
  job.sink->on_event(Accepted{"starter-chat"});
  job.sink->on_event(delta("Hel"));
  job.sink->on_event(failed(Code::Unavailable, "the worker is gone", "worker_lost"));
  const RawResponse response = c.response();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.body.ends_with(
      "data: {\"error\":{\"message\":\"the worker is gone\",\"type\":\"server_error\","
      "\"param\":null,\"code\":\"worker_lost\"}}\n\n"))
      << response.body;
  EXPECT_EQ(response.body.find("[DONE]"), std::string::npos);
}

TEST_F(RoutesTest, AVanishedClientCancelsItsJob) {
  RawClient waiting = client();
  waiting.send(chat());
  const Submitted first = service_.take();
  waiting.close();
  EXPECT_TRUE(service_.wait_cancelled(first.job));
  RawClient streaming = client();
  streaming.send(chat(R"(,"stream":true)"));
  const Submitted second = service_.take();
  second.sink->on_event(Accepted{"starter-chat"});
  streaming.head();
  streaming.close();
  EXPECT_TRUE(service_.wait_cancelled(second.job));
  second.sink->on_event(delta("into the void"));
  second.sink->on_event(failed(Code::Conflict, "cancelled", "cancelled"));
}

TEST_F(RoutesTest, DeleteCancels) {
  RawClient c = client();
  c.send(chat());
  const Submitted job = service_.take();
  const std::string host = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(ask("DELETE /v1/chat/completions/chatcmpl-1" + host).status, 200);
  EXPECT_TRUE(service_.wait_cancelled(job.job));
  job.sink->on_event(failed(Code::Conflict, "cancelled", "cancelled"));
  EXPECT_EQ(c.response().status, 409);
  for (const char* path : {"/v1/jobs/1", "/v1/completions/cmpl-77", "/v1/jobs/abc"}) {
    const RawResponse unknown = ask("DELETE " + std::string(path) + host);
    EXPECT_EQ(unknown.status, 404) << path;
    EXPECT_EQ(code_of(unknown), "job_not_found") << path;
  }
}

TEST_F(RoutesTest, CompletionAndClassHeader) {
  RawClient c = client();
  const std::string body = R"({"prompt":"once","echo":true})";
  c.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Lares-Class: voice\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const Submitted job = service_.take();
  EXPECT_EQ(job.generation.cls, "voice");
  EXPECT_TRUE(job.generation.echo);
  job.sink->on_event(Accepted{"starter-chat"});
  job.sink->on_event(delta("once upon", Finish::Length));
  job.sink->on_event(Ended{});
  EXPECT_NE(c.response().body.find(R"("object":"text_completion")"), std::string::npos);
}

TEST_F(RoutesTest, BadBodiesNeverReachTheService) {
  const RawResponse bad = ask(post("/v1/chat/completions", "{\"messages\":[]}"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_NE(bad.body.find("\"param\":\"messages\""), std::string::npos);
  EXPECT_NE(bad.head.find("X-Request-Id: req-"), std::string::npos);
  EXPECT_EQ(code_of(ask(post("/v1/chat/completions", "{"))), "invalid_json");
  EXPECT_EQ(ask("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
                .status,
            415);
  EXPECT_EQ(ask("GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
  const RawResponse preflight =
      ask("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil\r\n"
          "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 403);
  EXPECT_EQ(preflight.head.find("Access-Control"), std::string::npos);
}

TEST_F(RoutesTest, Models) {
  const RawResponse list = ask(get("/v1/models"));
  const auto body = json::parse(list.body);
  ASSERT_TRUE(body) << list.body;
  EXPECT_EQ(body->find("data")->as<json::Array>()->size(), 2U);
  EXPECT_EQ(ask(get("/v1/models/starter-chat")).status, 200);
  EXPECT_EQ(ask(get("/v1/models/folder/broken.gguf")).status, 200);
  EXPECT_EQ(ask(get("/v1/models/folder%2Fbroken.gguf")).status, 200);
  const RawResponse missing = ask(get("/v1/models/starter-chta"));
  EXPECT_EQ(missing.status, 404);
  EXPECT_NE(missing.body.find("Did you mean `starter-chat`?"), std::string::npos) << missing.body;
}

TEST_F(RoutesTest, HealthAndReadiness) {
  ServiceStatus status;
  status.reason = "starter-chat is loading";
  service_.set_status(status);
  EXPECT_EQ(ask(get("/healthz")).status, 200);
  const RawResponse waiting = ask(get("/readyz"));
  EXPECT_EQ(waiting.status, 503);
  EXPECT_NE(waiting.body.find("starter-chat is loading"), std::string::npos);
  EXPECT_NE(waiting.head.find("Retry-After"), std::string::npos);
  status.ready = true;
  service_.set_status(status);
  EXPECT_EQ(ask(get("/readyz")).status, 200);
}

TEST_F(RoutesTest, Usage) {
  const RawResponse by_model = ask(get("/v1/usage?by=model"));
  EXPECT_EQ(by_model.status, 200);
  EXPECT_TRUE(by_model.body.starts_with(
      R"({"object":"list","by":"model","data":[{"key":"starter-chat","requests":3,)"))
      << by_model.body;
  EXPECT_TRUE(json::parse(by_model.body));
  EXPECT_NE(usage_thread_, std::this_thread::get_id());
  EXPECT_NE(ask(get("/v1/usage")).body.find("\"by\":\"member\""), std::string::npos);
  EXPECT_EQ(ask(get("/v1/usage?by=colour")).status, 400);
  EXPECT_EQ(ask(get("/v1/usage?by=day")).status, 500);
}

TEST_F(RoutesTest, NoSuchRouteAndWrongMethod) {
  const RawResponse slip = ask(post("/v1/chat/completion", "{}"));
  EXPECT_EQ(slip.status, 404);
  EXPECT_NE(slip.body.find("Did you mean `/v1/chat/completions`?"), std::string::npos) << slip.body;
  EXPECT_NE(slip.head.find("X-Request-Id: req-"), std::string::npos);
  const RawResponse wrong = ask(get("/v1/chat/completions"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_NE(wrong.head.find("Allow: POST\r\n"), std::string::npos) << wrong.head;
  const RawResponse models = ask("DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(models.status, 405);
  EXPECT_NE(models.head.find("Allow: GET, HEAD\r\n"), std::string::npos) << models.head;
}

TEST_F(RoutesTest, WelcomeNamesThisServer) {
  const RawResponse response = client().ask("GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(response.body.find("curl http://127.0.0.1:80/v1/models"), std::string::npos);
  EXPECT_EQ(response.body.find("HOST"), std::string::npos);
}

TEST_F(RoutesTest, MetricsCountByRoute) {
  ask(get("/healthz"));
  ask(get("/nowhere/1"));
  ask(get("/nowhere/2"));
  const RawResponse response = ask(get("/metrics"));
  EXPECT_NE(response.head.find("text/plain; version=0.0.4"), std::string::npos);
  for (const char* line :
       {"lares_http_requests_total{route=\"/healthz\",method=\"GET\",status=\"200\"} 1\n",
        "lares_http_requests_total{route=\"unknown\",method=\"GET\",status=\"404\"} 2\n",
        "lares_http_request_seconds_count{route=\"/healthz\"} 1\n", "lares_ready 0\n",
        "lares_worker_restarts{worker=\"device\"} 0\n"}) {
    EXPECT_NE(response.body.find(line), std::string::npos) << line << "\n" << response.body;
  }
}

}  // namespace
}  // namespace lares::server
