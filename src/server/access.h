// Who a request comes from, and whether it may pass: a member's key, or none where none is needed.
//
// On a server that only this machine reaches, a request without a key is `home`, if it passes
// server/guard.h. On any other, all but signs of life need a key.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "server/errors.h"
#include "server/failed_keys.h"
#include "server/http.h"
#include "store/members.h"

namespace lares::server {

// A member as it was when its request came in. Kept with the request: `gone()` says whether the key
// was taken away since. Any thread.
struct Caller {
  store::Member member;
  std::shared_ptr<std::atomic<bool>> revoked = std::make_shared<std::atomic<bool>>(false);

  [[nodiscard]] bool gone() const { return revoked->load(std::memory_order_relaxed); }
};
using CallerRef = std::shared_ptr<const Caller>;

// What a route asks of its caller.
enum class Need : std::uint8_t {
  Nothing,  // A sign of life: anybody who reaches the server.
  Member,
  Admin,  // Where other machines reach the server; on loopback, any caller.
};

enum class Reach : std::uint8_t { Loopback, Network };

class Access {
 public:
  explicit Access(Reach reach, FailedKeys::Options failed = {});

  // Any thread. Callers whose key is not among them any more are gone; then `on_revoked` is called.
  void set_members(const std::vector<store::Member>& members);
  // Once, before the first set_members() that may take a key away.
  void on_revoked(std::function<void()> callback);

  // Any thread. Whether a request may come without a key.
  [[nodiscard]] bool keyless() const { return reach_ == Reach::Loopback; }

  // Any thread. Whoever has a key of that member now; nothing if it was taken away.
  [[nodiscard]] CallerRef caller_of(MemberId member) const;

  // Any thread. Whoever has that name now; `home` too, where it may come without a key.
  [[nodiscard]] std::optional<MemberId> member_named(std::string_view name) const;

  // I/O thread. The caller, or what to answer.
  tl::expected<CallerRef, ApiError> admit(const HttpRequest& request, Need need, Instant now);

 private:
  [[nodiscard]] CallerRef find(std::string_view key) const;
  ApiError wrong_key(const HttpRequest& request, Instant now);

  const Reach reach_;
  const CallerRef home_;
  FailedKeys failed_;  // I/O thread.
  mutable std::mutex mutex_;
  std::vector<CallerRef> callers_;
  std::function<void()> revoked_;
};

// The key that a request presents, as `Authorization: Bearer KEY` or `X-Api-Key: KEY`, or "".
std::string_view presented_key(const HttpRequest& request);

// The class of a request: the one it claims in X-Lares-Class if its caller may, or `implied` if
// that is not "", or the caller's default.
tl::expected<std::string, ApiError> class_for(const Caller& caller, const HttpRequest& request,
                                              std::string_view implied = "");

}  // namespace lares::server
