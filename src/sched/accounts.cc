#include "sched/accounts.h"

#include <algorithm>
#include <limits>

#include "core/assert.h"

namespace lares::sched {
namespace {

constexpr std::int64_t kWhole = 1000;  // Weights are in thousandths.
constexpr std::uint32_t kNewest = 4;   // A new length counts a quarter of what is remembered.

}  // namespace

Accounts::Accounts(std::uint32_t classes, std::int64_t credit)
    : classes_(classes), credit_(credit), windows_(classes + 1) {}

Accounts::Index Accounts::member(MemberId id) {
  const auto [it, fresh] = by_id_.try_emplace(id, size());
  if (fresh) {
    Member member;
    member.id = id;
    member.output.resize(classes_);
    member.no_task = static_cast<Index>(tasks_.size());
    tasks_.push_back(Task{TaskId{}, it->second, 0, 0});
    members_.push_back(std::move(member));
  }
  return it->second;
}

void Accounts::set_limits(MemberId id, const MemberLimits& limits) {
  LARES_ASSERT(limits.weight > 0, "member {} weighs nothing", id.value);
  members_[member(id)].limits = limits;
}

void Accounts::lift(Member& member) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Member& other : members_) {
    if (other.waiting > 0) least = std::min(least, other.counter);
  }
  if (least == std::numeric_limits<std::int64_t>::max()) least = members_[last_].counter;
  if (member.running > 0) least -= credit_;
  if (least <= member.counter) return;
  member.counter = least;
  ++member.lifts;
}

Accounts::Index Accounts::submitted(Index index, TaskId id) {
  Member& m = members_[index];
  if (m.waiting == 0) lift(m);
  ++m.waiting;
  const Index found = find_task(index, id);
  Task& task = tasks_[found];
  if (task.jobs++ > 0) return found;
  // A task joins at the least of the member's others, as a member does among members.
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Task& other : tasks_) {
    if (other.jobs > 0 && other.member == index && &other != &task)
      least = std::min(least, other.counter);
  }
  if (least != std::numeric_limits<std::int64_t>::max())
    task.counter = std::max(task.counter, least);
  return found;
}

Accounts::Index Accounts::find_task(Index member, TaskId id) {
  if (id == TaskId{}) return members_[member].no_task;
  const auto [it, fresh] = named_tasks_.try_emplace({member, id}, 0);
  if (!fresh) return it->second;
  if (free_tasks_.empty()) {
    free_tasks_.push_back(static_cast<Index>(tasks_.size()));
    tasks_.emplace_back();
  }
  it->second = free_tasks_.back();
  free_tasks_.pop_back();
  tasks_[it->second] = Task{id, member, 0, 0};
  return it->second;
}

void Accounts::left_queue(Index index) {
  Member& m = members_[index];
  LARES_ASSERT(m.waiting > 0, "member {} has nothing waiting", m.id.value);
  --m.waiting;
  last_ = index;
}

void Accounts::task_done(Index index) {
  Task& task = tasks_[index];
  if (--task.jobs > 0 || task.id == TaskId{}) return;
  named_tasks_.erase({task.member, task.id});
  free_tasks_.push_back(index);
}

void Accounts::charge(Index index, Index task, TaskId id, std::int64_t service) {
  LARES_ASSERT(service >= 0, "charged {}", service);
  members_[index].counter += per_weight(index, service);
  if (tasks_[task].member == index && tasks_[task].id == id) tasks_[task].counter += service;
}

std::int64_t Accounts::per_weight(Index index, std::int64_t service) const {
  const std::uint32_t weight = members_[index].limits.weight;
  return weight == kWhole ? service : service * kWhole / weight;
}

std::uint32_t Accounts::output_expected(Index index, std::uint32_t cls,
                                        std::uint32_t unknown) const {
  const std::uint32_t seen = members_[index].output[cls];
  return seen == 0 ? unknown : std::max(seen / 16, 1U);
}

void Accounts::output_seen(Index index, std::uint32_t cls, std::uint32_t tokens) {
  std::uint32_t& mean = members_[index].output[cls];
  const std::uint32_t sixteenths = std::max(tokens, 1U) * 16;
  mean = mean == 0 ? sixteenths : mean - mean / kNewest + sixteenths / kNewest;
}

void Accounts::advance(Instant now) {
  const std::int64_t bucket = now.time_since_epoch() / kBucket;
  const std::int64_t stale =
      std::min<std::int64_t>(bucket - bucket_, static_cast<std::int64_t>(kBuckets));
  for (std::int64_t i = 1; i <= stale; ++i) {
    const auto at = static_cast<std::size_t>(bucket_ + i) % kBuckets;
    for (Window& window : windows_) {
      window.sum -= window.served[at];
      window.served[at] = 0;
    }
  }
  if (bucket - bucket_ > stale) {
    for (Window& window : windows_) window = {};
  }
  bucket_ = bucket;
}

void Accounts::class_served(std::uint32_t cls, Duration device) {
  const auto at = static_cast<std::size_t>(bucket_) % kBuckets;
  for (Window* window : {&windows_[cls], &windows_[classes_]}) {
    window->served[at] += device.count();
    window->sum += device.count();
  }
}

std::uint32_t Accounts::class_share(std::uint32_t cls) const {
  const std::int64_t all = windows_[classes_].sum;
  if (all <= 0) return 0;
  return static_cast<std::uint32_t>(windows_[cls].sum * 1000 / all);
}

void Accounts::check() const {
  std::int64_t sum = 0;
  for (std::uint32_t c = 0; c < classes_; ++c) sum += windows_[c].sum;
  LARES_ASSERT(sum == windows_[classes_].sum, "classes were served {}, all {}", sum,
               windows_[classes_].sum);
  for (const Member& m : members_) {
    LARES_ASSERT(m.counter >= 0 && m.outstanding >= 0, "member {}: counter {}, outstanding {}",
                 m.id.value, m.counter, m.outstanding);
    LARES_ASSERT(m.running > 0 || m.outstanding == 0, "member {} runs nothing, expects {}",
                 m.id.value, m.outstanding);
  }
}

}  // namespace lares::sched
