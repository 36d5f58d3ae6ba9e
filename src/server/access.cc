#include "server/access.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/guard.h"
#include "store/key.h"

namespace lares::server {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// As OpenAI answers it, which is what clients tell apart.
ApiError unauthorised(std::string message, std::string error_code) {
  ApiError error;
  error.code = Code::Invalid;
  error.status = 401;
  error.message = std::move(message);
  error.error_code = std::move(error_code);
  return error;
}

ApiError forbidden(std::string message, std::string error_code) {
  ApiError error;
  error.code = Code::Forbidden;
  error.message = std::move(message);
  error.error_code = std::move(error_code);
  return error;
}

CallerRef make_home() {
  return std::make_shared<Caller>();
}

}  // namespace

std::string_view presented_key(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view authorization = request.header("authorization");
  if (equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) {
    const std::string_view key = trimmed(authorization.substr(kScheme.size()));
    if (!key.empty()) return key;
  }
  return trimmed(request.header("x-api-key"));
}

tl::expected<std::string, ApiError> class_for(const Caller& caller, const HttpRequest& request,
                                              std::string_view implied) {
  const std::string_view claimed = request.header("x-lares-class");
  const store::Member& member = caller.member;
  if (claimed.empty()) return implied.empty() ? member.default_class : std::string(implied);
  if (member.may_claim(claimed)) return std::string(claimed);
  return tl::unexpected(
      forbidden(fmt::format("the key of {} may not claim the class `{}`; it may claim: {}",
                            member.share.name, claimed, fmt::join(member.classes, ", ")),
                "class_not_allowed"));
}

Access::Access(Reach reach, FailedKeys::Options failed)
    : reach_(reach), home_(make_home()), failed_(failed) {}

void Access::on_revoked(std::function<void()> callback) {
  const std::scoped_lock lock(mutex_);
  revoked_ = std::move(callback);
}

void Access::set_members(const std::vector<store::Member>& members) {
  std::vector<CallerRef> fresh;
  std::function<void()> tell;
  {
    const std::scoped_lock lock(mutex_);
    std::vector<CallerRef> left = callers_;
    for (const store::Member& member : members) {
      const auto same = std::ranges::find_if(left, [&](const CallerRef& old) {
        return old->member.share.id == member.share.id && old->member.key_hash == member.key_hash;
      });
      const auto caller = std::make_shared<Caller>();
      caller->member = member;
      if (same != left.end()) {
        caller->revoked = (*same)->revoked;
        left.erase(same);
      }
      fresh.push_back(caller);
    }
    for (const CallerRef& gone : left) gone->revoked->store(true, std::memory_order_relaxed);
    callers_.swap(fresh);
    if (!left.empty()) tell = revoked_;
  }
  if (tell) tell();
}

// Looks at all of them, so that the time it takes says nothing about which one it was.
CallerRef Access::find(std::string_view key) const {
  const std::string hash = store::hash_key(key);
  const std::scoped_lock lock(mutex_);
  CallerRef found;
  for (const CallerRef& caller : callers_) {
    if (store::same_hash(caller->member.key_hash, hash)) found = caller;
  }
  return found;
}

std::optional<MemberId> Access::member_named(std::string_view name) const {
  if (reach_ == Reach::Loopback && home_->member.share.name == name) return home_->member.share.id;
  const std::scoped_lock lock(mutex_);
  for (const CallerRef& caller : callers_) {
    if (caller->member.share.name == name) return caller->member.share.id;
  }
  return std::nullopt;
}

CallerRef Access::caller_of(MemberId member) const {
  if (member == home_->member.share.id) return home_;
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(
      callers_, [&](const CallerRef& caller) { return caller->member.share.id == member; });
  return found == callers_.end() ? nullptr : *found;
}

ApiError Access::wrong_key(const HttpRequest& request, Instant now) {
  const Duration wait = failed_.note(request.peer, now);
  if (wait > Duration{0}) {
    ApiError error;
    error.code = Code::Busy;
    error.message = "too many wrong keys from this address; check the key, and wait";
    error.error_code = "too_many_failed_keys";
    error.retry_after = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(wait).count());
    return error;
  }
  return unauthorised(
      "this is not the key of a member: it is wrong, or was taken away. `lares member list` names "
      "who has one, `lares member rotate NAME` makes a new one",
      "invalid_api_key");
}

tl::expected<CallerRef, ApiError> Access::admit(const HttpRequest& request, Need need,
                                                Instant now) {
  std::string_view key = presented_key(request);
  // Many clients insist on sending a key: a placeholder is none where none is needed.
  if (reach_ == Reach::Loopback && !store::is_key(key)) key = {};
  if (const CallerRef caller = key.empty() ? nullptr : find(key)) {
    if (auto refused = guard_body(request)) return tl::unexpected(std::move(*refused));
    if (need == Need::Admin && reach_ == Reach::Network && !caller->member.admin) {
      return tl::unexpected(forbidden(
          "this needs the key of an admin (`lares member add NAME --admin`)", "admin_key_needed"));
    }
    return caller;
  }
  if (!key.empty() && need != Need::Nothing) return tl::unexpected(wrong_key(request, now));
  if (reach_ == Reach::Loopback) {
    if (auto refused = guard_keyless(request)) return tl::unexpected(std::move(*refused));
    return home_;
  }
  if (need == Need::Nothing) return home_;
  return tl::unexpected(unauthorised(
      "this server needs a key: send `Authorization: Bearer KEY`, or `X-Api-Key: KEY`. `lares "
      "member add NAME` makes one",
      "missing_api_key"));
}

}  // namespace lares::server
