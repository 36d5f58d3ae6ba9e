// The dashboard's files and data, by way of the routes.
#include "server/web_routes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>

#include "core/json.h"
#include "server/routes.h"
#include "server/web_data.h"
#include "server/web_files.h"

namespace lares::server {
namespace {

// The answer of one request, also if it comes from another thread.
class OneExchange final : public Exchange {
 public:
  explicit OneExchange(HttpRequest request) : request_(std::move(request)) {}
  [[nodiscard]] const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    const std::scoped_lock lock(mutex_);
    response_ = std::move(response);
    changed_.notify_all();
  }
  void begin_stream(int, std::string, Headers) override {}
  void send(std::string) override {}
  void end_stream() override {}
  void on_disconnect(std::function<void()>) override {}

  HttpResponse wait() {
    std::unique_lock lock(mutex_);
    const bool came =
        changed_.wait_for(lock, std::chrono::seconds(60), [this] { return response_.has_value(); });
    EXPECT_TRUE(came) << "no answer to " << request_.path;
    return came ? *response_ : HttpResponse{};
  }

 private:
  HttpRequest request_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<HttpResponse> response_;
};

class NoService final : public Service {
 public:
  JobId submit(Generation, std::shared_ptr<GenerationSink>) override { return {}; }
  bool cancel(JobId) override { return false; }
  [[nodiscard]] std::vector<ModelStatus> models() const override { return {}; }
  [[nodiscard]] ServiceStatus status() const override { return {}; }
};

store::HourUse use(std::uint32_t id, const char* member, std::int64_t hour, int seconds) {
  return {.unix_s = hour,
          .member_id = MemberId{id},
          .member = member,
          .cls = "chat",
          .requests = 2,
          .device = std::chrono::seconds(seconds)};
}

class WebRoutesTest : public ::testing::Test {
 protected:
  WebRoutesTest() {
    RouteOptions options;
    options.now = [] { return Instant{std::chrono::seconds(7)}; };
    options.unix_seconds = [] { return std::uint64_t{1700000000}; };
    options.access = std::make_shared<Access>(Reach::Loopback);
    options.usage = [](store::UsageBy, std::optional<MemberId>) {
      return Result<std::vector<store::UsageSum>>();
    };
    options.web.timeline = timeline_;
    SettingText& setting = options.web.settings.emplace_back();
    setting.key = "a.b";
    setting.value = "\"1\"";
    setting.meaning = "What.";
    options.web.hours = [this](std::int64_t since) -> Result<std::vector<store::HourUse>> {
      since_ = since;
      return std::vector{use(0, "home", 1699999200, 3), use(4, "ben", 1699999200, 1)};
    };
    options.web.requests = [this](std::optional<MemberId> of, std::int64_t before,
                                  std::uint32_t limit) -> Result<std::vector<store::PastRequest>> {
      asked_ = {of, before};
      std::vector<store::PastRequest> found;
      for (std::int64_t n = 9; n > 0 && found.size() < limit; --n) {
        found.push_back({.number = n, .row = {}});
        found.back().row.clocks.total = std::chrono::seconds(n);
      }
      return found;
    };
    handler_ = make_routes(service_, metrics_, std::move(options));
  }

  HttpResponse get(std::string path, std::string query = "", Headers headers = {}) {
    HttpRequest request;
    request.method = "GET";
    request.path = std::move(path);
    request.query = std::move(query);
    request.headers = std::move(headers);
    request.headers.emplace_back("host", "localhost:8080");
    const auto exchange = std::make_shared<OneExchange>(std::move(request));
    handler_(exchange);
    return exchange->wait();
  }
  static json::Value parsed(const HttpResponse& response) {
    auto value = json::parse(response.body);
    EXPECT_TRUE(value) << response.body;
    return value ? std::move(*value) : json::Value();
  }

  std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>(Instant{});
  std::int64_t since_ = 0;
  std::pair<std::optional<MemberId>, std::int64_t> asked_;
  NoService service_;
  Metrics metrics_;
  HttpHandler handler_;
};

std::string header(const HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST_F(WebRoutesTest, ABrowserGetsThePageAndCurlWords) {
  const auto words = get("/", "", {{"accept", "*/*"}});
  EXPECT_EQ(words.content_type, "text/plain; charset=utf-8");
  EXPECT_NE(words.body.find("curl http://localhost:8080/v1/models"), std::string::npos);
  const auto page = get("/", "", {{"accept", "text/html,*/*;q=0.8"}});
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("/web/app.js"), std::string::npos);
  EXPECT_NE(header(page, "Content-Security-Policy").find("default-src 'none'"), std::string::npos);
}

// Everything together, all pages and their plots, as a browser that knows gzip gets it.
TEST(WebFiles, ThePageIsSmall) {
  std::size_t bytes = 0;
  for (const WebFile& file : web_files())
    bytes += file.gzip.empty() ? file.bytes.size() : file.gzip.size();
  EXPECT_GT(bytes, 10U << 10U);  // It is there at all.
  EXPECT_LT(bytes, 100U << 10U);
}

TEST_F(WebRoutesTest, FilesAreCompressedAndNotSentTwice) {
  for (const WebFile& file : web_files()) {
    const std::string path = "/web/" + std::string(file.path);
    const auto plain = get(path);
    EXPECT_EQ(plain.status, 200);
    EXPECT_EQ(plain.body, file.bytes) << path;
    EXPECT_EQ(header(plain, "Content-Encoding"), "");
    const auto packed = get(path, "", {{"accept-encoding", "br, gzip"}});
    EXPECT_EQ(header(packed, "Content-Encoding"), file.gzip.empty() ? "" : "gzip");
    EXPECT_LE(packed.body.size(), plain.body.size());
    EXPECT_EQ(get(path, "", {{"accept-encoding", "gzip;q=0"}}).body, file.bytes);
    const auto same = get(path, "", {{"if-none-match", header(plain, "ETag")}});
    EXPECT_EQ(same.status, 304) << path;
    EXPECT_EQ(same.body, "");
    EXPECT_EQ(get(path, "", {{"if-none-match", "\"another\""}}).status, 200);
  }
  EXPECT_EQ(get("/web/nothing.js").status, 404);
  EXPECT_EQ(get("/web/../index.html").status, 404);
  EXPECT_EQ(get("/web/door").body, "{\"keyless\":true}");
}

TEST_F(WebRoutesTest, NoFileAsksForAnythingElsewhere) {
  for (const WebFile& file : web_files()) {
    if (file.path.ends_with("LICENSE.txt")) continue;
    for (const char* scheme : {"https://", "http://"}) {
      for (auto at = file.bytes.find(scheme); at != file.bytes.npos;
           at = file.bytes.find(scheme, at + 1)) {
        const std::string_view url = file.bytes.substr(at, 40);
        const bool name = url.starts_with("http://www.w3.org/") ||  // A namespace, no address.
                          url.starts_with("https://github.com/leeoniya/uPlot");  // In a comment.
        EXPECT_TRUE(name) << file.path << ": " << url;
      }
    }
    EXPECT_EQ(file.bytes.find("style=\""), file.bytes.npos)
        << file.path << ": the policy forbids it";
    EXPECT_EQ(file.bytes.find("innerHTML"), file.bytes.npos) << file.path;
  }
}

TEST_F(WebRoutesTest, WhoAsks) {
  const auto me = parsed(get("/v1/me"));
  EXPECT_EQ(*me.find("name")->as<std::string>(), "home");
  EXPECT_EQ(*me.find("key")->as<bool>(), false);
}

TEST_F(WebRoutesTest, TheTimelineFromANumberOn) {
  EXPECT_EQ(*parsed(get("/v1/timeline")).find("now")->number(), 7);
  EXPECT_EQ(get("/v1/timeline", "since=x").status, 400);
  EXPECT_EQ(get("/v1/timeline", "since=-1").status, 400);
}

TEST_F(WebRoutesTest, HoursBeginWithAWholeOne) {
  const auto hours = parsed(get("/v1/usage/hours", "hours=2"));
  EXPECT_EQ(since_, (1700000000LL / 3600 - 1) * 3600 * 1000);
  EXPECT_EQ(hours.find("data")->as<json::Array>()->size(), 1U) << "their own";
  EXPECT_EQ(json::to_text(*hours.find("others")), "[{\"hour\":1699999200,\"device_s\":1}]");
  EXPECT_EQ(*hours.find("jain")->number(), 0.8);
  EXPECT_EQ(hours.find("members")->integer(), 2);
  EXPECT_EQ(get("/v1/usage/hours", "hours=0").status, 400);
  EXPECT_EQ(get("/v1/usage/hours", "hours=1000").status, 400);
}

TEST_F(WebRoutesTest, RequestsComeInPages) {
  const auto first = parsed(get("/v1/usage/requests", "limit=4"));
  EXPECT_EQ(asked_.first, MemberId{0}) << "their own alone";
  EXPECT_EQ(first.find("data")->as<json::Array>()->size(), 4U);
  EXPECT_EQ(*first.find("has_more")->as<bool>(), true);
  EXPECT_EQ(first.find("next")->integer(), 6);
  const json::Value& clocks = *first.find("data")->as<json::Array>()->front().find("clocks");
  EXPECT_EQ(clocks.find("total_s")->number(), 9);
  EXPECT_TRUE(clocks.find("queue_wait_s")->is_null()) << "never reached";
  const auto last = parsed(get("/v1/usage/requests", "limit=9&before=6"));
  EXPECT_EQ(asked_.second, 6);
  EXPECT_EQ(*last.find("has_more")->as<bool>(), false);
  EXPECT_TRUE(last.find("next")->is_null());
  EXPECT_EQ(get("/v1/usage/requests", "limit=501").status, 400);
}

TEST_F(WebRoutesTest, SettingsWithTheirMeaning) {
  const auto answer = parsed(get("/v1/settings"));
  const json::Value& one = answer.find("data")->as<json::Array>()->front();
  EXPECT_EQ(*one.find("value")->as<std::string>(), "\"1\"");
  EXPECT_EQ(*one.find("meaning")->as<std::string>(), "What.");
}

TEST(Jain, SaysHowEvenSharesAre) {
  EXPECT_EQ(jain_index({}), 1);
  EXPECT_EQ(jain_index({3, 3, 3}), 1);
  EXPECT_EQ(jain_index({1, 0, 0, 0}), 0.25);
  EXPECT_NEAR(jain_index({3, 1}), 0.8, 1e-12);
}

TEST(HoursJson, AnAdminSeesAllAndWeightsCount) {
  store::Member keeper;
  keeper.share.id = MemberId{9};
  keeper.admin = true;
  const auto weights = [](MemberId member) { return member.value == 4 ? 3000U : 1000U; };
  const auto uses = {use(1, "ana", 0, 1), use(4, "ben", 0, 3)};
  const auto answer = json::parse(hours_json(uses, 0, keeper, weights));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->find("data")->as<json::Array>()->size(), 2U);
  EXPECT_EQ(answer->find("others")->as<json::Array>()->size(), 0U);
  EXPECT_EQ(answer->find("jain")->number(), 1);
}

}  // namespace
}  // namespace lares::server
