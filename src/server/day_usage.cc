#include "server/day_usage.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

constexpr std::int64_t kQuarterMs = std::int64_t{15} * 60 * 1000;
constexpr std::int64_t kDayMs = 96 * kQuarterMs;

// When the last moment of a quarter is a day ago.
std::int64_t forgotten_at(std::int64_t number) {
  return (number + 1) * kQuarterMs + kDayMs;
}

Duration until(std::int64_t then_ms, std::int64_t now_ms) {
  return std::chrono::milliseconds(std::max<std::int64_t>(then_ms - now_ms, 0));
}

}  // namespace

void DayUsage::add(MemberId member, std::int64_t unix_ms, store::DeviceUse use) {
  auto& quarters = members_[member];
  const std::int64_t number = unix_ms / kQuarterMs;
  while (!quarters.empty() && forgotten_at(quarters.front().number) <= unix_ms)
    quarters.pop_front();
  // Rows end out of order, and a clock may be set back: a row joins the last quarter before it.
  if (quarters.empty() || quarters.back().number < number) quarters.push_back({number, {}});
  quarters.back().use += use;
}

std::optional<DayUsage::Over> DayUsage::over(MemberId member, const MemberLimits& limits,
                                             store::DeviceUse under_way,
                                             std::int64_t now_ms) const {
  static const std::deque<Quarter> kNone;
  const auto found = members_.find(member);
  const auto& quarters = found == members_.end() ? kNone : found->second;
  store::DeviceUse used = under_way;
  for (const Quarter& q : quarters) {
    if (forgotten_at(q.number) > now_ms) used += q.use;
  }
  const auto device_max = std::chrono::seconds(limits.device_seconds_a_day);
  const auto tokens_over = [&](const store::DeviceUse& u) {
    return limits.tokens_a_day > 0 && u.tokens >= limits.tokens_a_day;
  };
  const auto device_over = [&](const store::DeviceUse& u) {
    return limits.device_seconds_a_day > 0 && u.device >= device_max;
  };
  if (!tokens_over(used) && !device_over(used)) return std::nullopt;
  Over out;
  out.what = tokens_over(used) ? fmt::format("{} of {} tokens", used.tokens, limits.tokens_a_day)
                               : fmt::format("{:.0f} of {} seconds of the device",
                                             in_seconds(used.device), limits.device_seconds_a_day);
  // What is under way is forgotten a day from now at the latest.
  out.wait = std::chrono::milliseconds(kDayMs);
  for (const Quarter& q : quarters) {
    if (forgotten_at(q.number) <= now_ms) continue;
    used -= q.use;
    if (tokens_over(used) || device_over(used)) continue;
    out.wait = until(forgotten_at(q.number), now_ms);
    break;
  }
  return out;
}

}  // namespace lares::server
