#include "server/job_queue.h"

#include <iterator>

#include "core/assert.h"

namespace lares::server {

void JobQueue::add(std::int64_t seq, const Lane& lane) {
  lanes_[lane].waiting.insert(seq);
}

std::optional<std::int64_t> JobQueue::next(Instant now) {
  if (out_ >= limits_.total) return std::nullopt;
  State* best = nullptr;
  for (auto& [lane, state] : lanes_) {
    if (state.waiting.empty() || state.out >= limits_.lane_max || state.paused_until > now)
      continue;
    const bool better = best == nullptr || state.out < best->out ||
                        (state.out == best->out && *state.waiting.begin() < *best->waiting.begin());
    if (better) best = &state;
  }
  if (best == nullptr) return std::nullopt;
  const std::int64_t seq = *best->waiting.begin();
  best->waiting.erase(best->waiting.begin());
  ++best->out;
  ++out_;
  return seq;
}

void JobQueue::finished(const Lane& lane) {
  const auto found = lanes_.find(lane);
  LARES_ASSERT(found != lanes_.end() && found->second.out > 0, "a job of {} was out", lane.cls);
  --out_;
  --found->second.out;
  if (found->second.out == 0 && found->second.waiting.empty()) lanes_.erase(found);
}

void JobQueue::put_back(std::int64_t seq, const Lane& lane, Instant until) {
  add(seq, lane);
  lanes_[lane].paused_until = until;
  finished(lane);
}

bool JobQueue::remove(std::int64_t seq, const Lane& lane) {
  const auto found = lanes_.find(lane);
  if (found == lanes_.end() || found->second.waiting.erase(seq) == 0) return false;
  if (found->second.out == 0 && found->second.waiting.empty()) lanes_.erase(found);
  return true;
}

std::uint32_t JobQueue::position(std::int64_t seq, const Lane& lane) const {
  const auto found = lanes_.find(lane);
  if (found == lanes_.end()) return 0;
  const auto& waiting = found->second.waiting;
  return static_cast<std::uint32_t>(std::distance(waiting.begin(), waiting.lower_bound(seq)));
}

std::uint32_t JobQueue::waiting(MemberId member) const {
  std::size_t count = 0;
  for (const auto& [lane, state] : lanes_) {
    if (lane.member == member) count += state.waiting.size();
  }
  return static_cast<std::uint32_t>(count);
}

}  // namespace lares::server
