#include "sched/graph_costs.h"

#include <algorithm>

namespace lares::sched {
namespace {

constexpr std::int64_t kRecent = 4;   // A new time counts a quarter of what is remembered.
constexpr std::int64_t kSlowest = 8;  // Times what is remembered: one slow pass moves little.

}  // namespace

void GraphCosts::observe(std::uint64_t key, std::uint32_t rows, Duration took) {
  if (rows == 0 || took.count() <= 0) return;
  ++count_;
  const std::int64_t each = took.count() / rows;
  usual_ns_ += (std::min(each, usual_ns_ * kSlowest) - usual_ns_) / kRecent;
  const auto [it, fresh] = seen_.try_emplace({key, rows});
  Seen& seen = it->second;
  seen.used = count_;
  if (!fresh) {
    seen.ns += (std::min(took.count(), seen.ns * kSlowest) - seen.ns) / kRecent;
    return;
  }
  seen.ns = took.count();
  if (seen_.size() <= kMost) return;
  seen_.erase(
      std::ranges::min_element(seen_, {}, [](const auto& entry) { return entry.second.used; }));
}

Duration GraphCosts::predict(std::uint64_t key, std::uint32_t rows) const {
  auto at = seen_.lower_bound({key, rows});
  if (at == seen_.end() || at->first.first != key) {
    if (at == seen_.begin() || (--at)->first.first != key) return Duration(usual_ns_ * rows);
  }
  return Duration(at->second.ns * rows / at->first.second);
}

}  // namespace lares::sched
