#include "server/access.h"

#include <gtest/gtest.h>

#include "store/key.h"

namespace lares::server {
namespace {

const std::string kAna = *store::new_key();
const std::string kBen = *store::new_key();

store::Member member(std::uint32_t id, std::string name, const std::string& key) {
  store::Member out;
  out.share.id = MemberId{id};
  out.share.name = std::move(name);
  out.classes = {"chat", "agent"};
  out.key_hash = store::hash_key(key);
  return out;
}

HttpRequest request(Headers headers) {
  HttpRequest out;
  out.method = "GET";
  out.path = "/v1/models";
  out.headers = std::move(headers);
  out.headers.emplace_back("host", "localhost");
  out.peer = "10.0.0.7";
  return out;
}

HttpRequest with(const std::string& key) {
  return request({{"authorization", "Bearer " + key}});
}

// The name of who it is, or the code of the refusal.
std::string who(Access& access, const HttpRequest& asked, Need need = Need::Member,
                Instant now = Instant{}) {
  const auto caller = access.admit(asked, need, now);
  return caller ? (*caller)->member.share.name : caller.error().error_code;
}

TEST(Access, WhereTheKeyMayStand) {
  EXPECT_EQ(presented_key(request({{"authorization", "Bearer abc"}})), "abc");
  EXPECT_EQ(presented_key(request({{"authorization", "bEARER  abc "}})), "abc");
  EXPECT_EQ(presented_key(request({{"x-api-key", "abc"}})), "abc");
  EXPECT_EQ(presented_key(request({{"authorization", "Basic eHh4"}, {"x-api-key", "abc"}})), "abc");
  EXPECT_EQ(presented_key(request({{"authorization", "Bearer a"}, {"x-api-key", "b"}})), "a");
  EXPECT_EQ(presented_key(request({{"authorization", "Bearer"}})), "");
  EXPECT_EQ(presented_key(request({})), "");
}

TEST(Access, OnLoopbackAKeyIsOptionalButNotAWrongOne) {
  Access access(Reach::Loopback);
  access.set_members({member(1, "ana", kAna)});
  EXPECT_EQ(who(access, request({})), "home");
  EXPECT_EQ(who(access, with("none")), "home") << "a placeholder, as many clients send";
  EXPECT_EQ(who(access, with(kAna)), "ana");
  EXPECT_EQ(who(access, with(kBen)), "invalid_api_key");
  EXPECT_EQ(who(access, request({{"x-forwarded-for", "10.0.0.1"}})), "forwarded_needs_key");
  EXPECT_EQ(who(access, request({{"origin", "https://evil.example"}})), "origin_not_allowed");
  EXPECT_EQ(who(access, request({{"x-forwarded-for", "1"}, {"x-api-key", kAna}})), "ana");
  EXPECT_EQ(who(access, request({}), Need::Admin), "home");
}

TEST(Access, OnTheNetworkEverybodyNeedsOne) {
  Access access(Reach::Network);
  store::Member admin = member(2, "ben", kBen);
  admin.admin = true;
  access.set_members({member(1, "ana", kAna), admin});
  EXPECT_EQ(who(access, request({})), "missing_api_key");
  EXPECT_EQ(who(access, with("none")), "invalid_api_key");
  EXPECT_EQ(who(access, with(kAna)), "ana");
  EXPECT_EQ(who(access, with(kAna), Need::Admin), "admin_key_needed");
  EXPECT_EQ(who(access, with(kBen), Need::Admin), "ben");
  EXPECT_EQ(who(access, request({}), Need::Nothing), "home");
  HttpRequest form = with(kAna);
  form.method = "POST";
  form.headers.emplace_back("content-type", "text/plain");
  EXPECT_EQ(who(access, form), "content_type");
}

TEST(Access, RefusalsLookAsClientsExpect) {
  Access access(Reach::Network);
  const auto refused = access.admit(with(kAna), Need::Member, Instant{});
  ASSERT_FALSE(refused);
  const HttpResponse response = error_response(refused.error());
  EXPECT_EQ(response.status, 401);
  EXPECT_NE(response.body.find("\"type\":\"invalid_request_error\""), std::string::npos);
  EXPECT_NE(response.body.find("\"code\":\"invalid_api_key\""), std::string::npos);
  EXPECT_EQ(response.body.find(kAna), std::string::npos) << "keys are never repeated";
  EXPECT_EQ(response.headers.front().first, "WWW-Authenticate");
}

TEST(Access, WrongKeysAreSlowedDownAndRightOnesAreNot) {
  Access access(Reach::Network, {.burst = 2, .each = std::chrono::seconds(6), .sources_max = 8});
  access.set_members({member(1, "ana", kAna)});
  EXPECT_EQ(who(access, with("x")), "invalid_api_key");
  EXPECT_EQ(who(access, with("y")), "invalid_api_key");
  const auto slowed = access.admit(with("z"), Need::Member, Instant{});
  ASSERT_FALSE(slowed);
  EXPECT_EQ(slowed.error().error_code, "too_many_failed_keys");
  EXPECT_EQ(error_response(slowed.error()).status, 429);
  const std::pair<std::string, std::string> retry{"Retry-After", "6"};
  EXPECT_EQ(error_response(slowed.error()).headers.front(), retry);
  EXPECT_EQ(who(access, with(kAna)), "ana");
  EXPECT_EQ(who(access, with("z"), Need::Member, Instant{std::chrono::seconds(6)}),
            "invalid_api_key");
}

TEST(Access, AKeyThatIsTakenAwayIsGone) {
  Access access(Reach::Network);
  int told = 0;
  access.on_revoked([&told] { ++told; });
  access.set_members({member(1, "ana", kAna), member(2, "ben", kBen)});
  const CallerRef ana = *access.admit(with(kAna), Need::Member, Instant{});
  const CallerRef ben = *access.admit(with(kBen), Need::Member, Instant{});
  store::Member heavier = member(1, "ana", kAna);
  heavier.share.weight_permille = 5000;
  access.set_members({heavier, member(2, "ben", kBen)});
  EXPECT_FALSE(ana->gone()) << "changed, but the same key";
  EXPECT_EQ(told, 0);
  EXPECT_EQ((*access.admit(with(kAna), Need::Member, Instant{}))->member.share.weight_permille,
            5000U);
  access.set_members({heavier});
  EXPECT_TRUE(ben->gone());
  EXPECT_FALSE(ana->gone());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(who(access, with(kBen)), "invalid_api_key");
  access.set_members({member(1, "ana", kBen)});  // Rotated.
  EXPECT_TRUE(ana->gone()) << "also through an older state of the member";
  EXPECT_EQ(told, 2);
}

TEST(Access, Classes) {
  Caller ana;
  ana.member = member(1, "ana", kAna);
  EXPECT_EQ(class_for(ana, request({})), "chat");
  EXPECT_EQ(class_for(ana, request({}), "embedding"), "embedding");
  EXPECT_EQ(class_for(ana, request({{"x-lares-class", "agent"}}), "embedding"), "agent");
  const auto refused = class_for(ana, request({{"x-lares-class", "voice"}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(error_status(refused.error()), 403);
  EXPECT_EQ(refused.error().error_code, "class_not_allowed");
  EXPECT_NE(refused.error().message.find("chat, agent"), std::string::npos);
  EXPECT_EQ(class_for(Caller{}, request({{"x-lares-class", "voice"}})), "voice") << "home";
}

}  // namespace
}  // namespace lares::server
