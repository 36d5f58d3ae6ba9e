// Every route with every kind of key, and every pair of an owner's key and another's.
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/json.h"
#include "server/routes.h"
#include "store/key.h"

namespace lares::server {
namespace {

// Answers itself into a value; nobody ever leaves.
class FakeExchange final : public Exchange {
 public:
  explicit FakeExchange(HttpRequest request) : request_(std::move(request)) {}
  [[nodiscard]] const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    body = std::move(response.body);
    status = response.status;  // Last: a test may wait for it.
  }
  void begin_stream(int begun, std::string, Headers) override { status = begun; }
  void send(std::string data) override { body += data; }
  void end_stream() override { ended = true; }
  void on_disconnect(std::function<void()>) override {}

  std::atomic<int> status = 0;
  std::string body;
  bool ended = false;

 private:
  HttpRequest request_;
};

// Takes jobs on and leaves them running.
class PatientService final : public Service {
 public:
  JobId submit(Generation generation, std::shared_ptr<GenerationSink> sink) override {
    const JobId job{++last};
    members[job.value] = generation.member;
    sinks[job.value] = std::move(sink);
    sinks[job.value]->on_event(Accepted{"starter-chat"});
    return job;
  }
  bool cancel(JobId job) override {
    const auto found = sinks.find(job.value);
    if (found == sinks.end()) return false;
    const auto sink = found->second;
    sinks.erase(found);
    sink->on_event(Ended{{}, Error{Code::Conflict, "cancelled"}, "cancelled"});
    return true;
  }
  [[nodiscard]] std::vector<ModelStatus> models() const override { return {}; }
  [[nodiscard]] ServiceStatus status() const override { return {}; }

  std::uint64_t last = 0;
  std::map<std::uint64_t, MemberShare> members;
  std::map<std::uint64_t, std::shared_ptr<GenerationSink>> sinks;
};

// Whose key a request carries.
enum class Who : std::uint8_t { Nobody, Ana, Ben, Admin, Removed };
constexpr std::array kEverybody{Who::Nobody, Who::Ana, Who::Ben, Who::Admin, Who::Removed};

std::string name_of(Who who) {
  static constexpr std::array<const char*, 5> kNames{"nobody", "ana", "ben", "admin", "removed"};
  return kNames.at(static_cast<std::size_t>(who));
}

// One server and its members.
class Household {
 public:
  explicit Household(Reach reach) : access_(std::make_shared<Access>(reach)) {
    for (const Who who : kEverybody) keys_[who] = who == Who::Nobody ? "" : *store::new_key();
    std::vector<store::Member> members{member(Who::Ana), member(Who::Ben), member(Who::Admin)};
    members.push_back(member(Who::Removed));
    access_->set_members(members);
    members.pop_back();
    RouteOptions options;
    options.now = [] { return Instant{}; };
    options.unix_seconds = [] { return std::uint64_t{1700000000}; };
    options.access = access_;
    options.usage = [](store::UsageBy,
                       std::optional<MemberId> of) -> Result<std::vector<store::UsageSum>> {
      store::UsageSum sum;
      sum.key = of ? "of " + std::to_string(of->value) : "of all";
      return std::vector<store::UsageSum>{sum};
    };
    handler_ = make_routes(service, metrics_, std::move(options));
    access_->set_members(members);
  }

  std::shared_ptr<FakeExchange> ask(std::string_view method, std::string path, Who who,
                                    Headers headers = {}) {
    HttpRequest request;
    request.method = method;
    request.path = std::move(path);
    request.peer = "192.168.0.9";
    request.headers = std::move(headers);
    request.headers.emplace_back("host", "localhost:8080");
    request.headers.emplace_back("content-type", "application/json");
    if (who != Who::Nobody) request.headers.emplace_back("authorization", "Bearer " + keys_[who]);
    // Whatever the route makes of it: one of these fields is what it needs.
    request.body = R"({"model":"m","stream":true,"prompt":"x","input":"x",)"
                   R"("messages":[{"role":"user","content":"x"}]})";
    const auto exchange = std::make_shared<FakeExchange>(std::move(request));
    handler_(exchange);
    return exchange;
  }

  void take_away(Who gone) {
    std::vector<store::Member> left;
    for (const Who who : {Who::Ana, Who::Ben, Who::Admin}) {
      if (who != gone) left.push_back(member(who));
    }
    access_->set_members(left);
  }

  [[nodiscard]] store::Member member(Who who) const {
    store::Member out;
    out.share.id = MemberId{static_cast<std::uint32_t>(who)};
    out.share.name = name_of(who);
    out.share.weight_permille = 1000 + static_cast<std::uint32_t>(who);
    out.classes = {"chat"};
    out.admin = who == Who::Admin;
    out.key_hash = store::hash_key(keys_.at(who));
    return out;
  }

  PatientService service;

 private:
  Metrics metrics_;
  std::shared_ptr<Access> access_;
  std::map<Who, std::string> keys_;
  HttpHandler handler_;
};

std::string code_of(const FakeExchange& exchange) {
  const std::size_t begin = exchange.body.find('{');
  if (begin == std::string::npos) return "";
  const auto body = json::parse(exchange.body.substr(begin));
  const json::Value* error = body ? body->find("error") : nullptr;
  const json::Value* code = error == nullptr ? nullptr : error->find("code");
  if (code == nullptr && body) code = body->find("code");  // In Ollama's form.
  return code == nullptr || code->as<std::string>() == nullptr ? "" : *code->as<std::string>();
}

// What stands at the door: the code of the refusal, or "" for a way in.
std::string expected(Reach reach, Need need, Who who) {
  const bool network = reach == Reach::Network;
  if (need == Need::Nothing) return "";
  if (who == Who::Removed) return "invalid_api_key";
  if (!network) return "";
  if (who == Who::Nobody) return "missing_api_key";
  return need == Need::Admin && who != Who::Admin ? "admin_key_needed" : "";
}

TEST(RoutesAccess, EveryRouteWithEveryKey) {
  for (const Reach reach : {Reach::Loopback, Reach::Network}) {
    for (const RouteInfo& route : route_list()) {
      std::string path(route.path);
      if (path.ends_with("{id}")) path.replace(path.size() - 4, 4, "77");
      for (const Who who : kEverybody) {
        Household home(reach);
        const auto answer = home.ask(route.method, path, who);
        const std::string wanted = expected(reach, route.need, who);
        const std::string what = fmt::format("{} {} by {} {}", route.method, path, name_of(who),
                                             reach == Reach::Network ? "from afar" : "at home");
        if (wanted.empty()) {
          EXPECT_TRUE(answer->status != 401 && answer->status != 403 && answer->status != 429)
              << what << ": " << answer->body;
        } else {
          EXPECT_EQ(code_of(*answer), wanted) << what;
          EXPECT_EQ(answer->status, wanted == "admin_key_needed" ? 403 : 401) << what;
        }
        for (const auto& [job, member] : home.service.members) {
          const auto id = static_cast<std::uint32_t>(who);
          EXPECT_EQ(member.id, MemberId{id}) << what;
          EXPECT_EQ(member.weight_permille, 1000 + id) << what;
        }
      }
    }
    Household home(reach);
    const auto nowhere = home.ask("GET", "/nowhere", Who::Removed);
    EXPECT_EQ(code_of(*nowhere), "invalid_api_key") << "not even that there is nothing";
  }
}

TEST(RoutesAccess, OneCancelsOnesOwnAndAnAdminAll) {
  for (const Who owner : {Who::Nobody, Who::Ana, Who::Ben, Who::Admin}) {
    for (const Who other : {Who::Nobody, Who::Ana, Who::Ben, Who::Admin}) {
      for (const char* path : {"/v1/chat/completions/", "/v1/completions/", "/v1/jobs/"}) {
        Household home(Reach::Loopback);
        const auto stream = home.ask("POST", "/v1/chat/completions", owner);
        ASSERT_EQ(stream->status, 200);
        const auto deleted = home.ask("DELETE", path + std::to_string(home.service.last), other);
        const bool may = owner == other || other == Who::Admin;
        EXPECT_EQ(deleted->status, may ? 200 : 404) << name_of(owner) << ' ' << name_of(other);
        EXPECT_EQ(stream->ended, may) << name_of(owner) << ' ' << name_of(other);
        EXPECT_EQ(home.ask("DELETE", path + std::to_string(home.service.last), owner)->status,
                  may ? 404 : 200);
      }
    }
  }
}

// Questions to the ledger are answered by another thread.
TEST(RoutesAccess, OneSeesOnesOwnUsageAndAnAdminAll) {
  const std::map<Who, std::string> wanted{
      {Who::Nobody, "of 0"}, {Who::Ana, "of 1"}, {Who::Ben, "of 2"}, {Who::Admin, "of all"}};
  for (const auto& [who, key] : wanted) {
    std::shared_ptr<FakeExchange> answer;
    {
      Household home(Reach::Loopback);
      answer = home.ask("GET", "/v1/usage", who);
      while (answer->status == 0) std::this_thread::yield();
    }
    EXPECT_NE(answer->body.find("\"" + key + "\""), std::string::npos) << answer->body;
  }
}

TEST(RoutesAccess, AStreamEndsWhenItsKeyIsTakenAway) {
  for (const Reach reach : {Reach::Loopback, Reach::Network}) {
    Household home(reach);
    const auto ana = home.ask("POST", "/v1/chat/completions", Who::Ana);
    const auto ben = home.ask("POST", "/v1/chat/completions", Who::Ben);
    home.take_away(Who::Ana);
    EXPECT_TRUE(ana->ended);
    EXPECT_NE(ana->body.find("\"code\":\"key_removed\""), std::string::npos) << ana->body;
    EXPECT_FALSE(ben->ended);
    EXPECT_FALSE(home.service.sinks.contains(1)) << "its work ended too";
    EXPECT_TRUE(home.service.sinks.contains(2));
    EXPECT_EQ(code_of(*home.ask("POST", "/v1/chat/completions", Who::Ana)), "invalid_api_key");
  }
}

TEST(RoutesAccess, AClassThatTheKeyDoesNotAllow) {
  Household home(Reach::Loopback);
  const Headers voice{{"x-lares-class", "voice"}};
  const auto refused = home.ask("POST", "/v1/chat/completions", Who::Ana, voice);
  EXPECT_EQ(refused->status, 403);
  EXPECT_EQ(code_of(*refused), "class_not_allowed");
  EXPECT_EQ(home.ask("POST", "/v1/chat/completions", Who::Nobody, voice)->status, 200);
}

}  // namespace
}  // namespace lares::server
