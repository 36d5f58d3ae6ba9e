#include "sched/job_table.h"

#include <algorithm>

#include "core/assert.h"
#include "core/hash.h"

namespace lares::sched {

Claimant claimant(const Job& job) {
  return {.model = job.model,
          .cls = job.cls,
          .member = job.member,
          .task = job.task,
          .started = job.at == Job::At::Running,
          .answered = job.unanswered == 0,
          .left = job.known() - job.planned,
          .arrival = job.arrival,
          .submitted = job.submitted,
          .served = job.served};
}

JobTable::JobTable(std::uint32_t jobs_max, bool by_task) : by_task_(by_task) {
  by_id_.reserve(jobs_max);
  free_.reserve(jobs_max);
  jobs_.resize(jobs_max);
  for (std::uint32_t i = jobs_max; i-- > 0;) free_.push_back(i);
}

Slot JobTable::find(JobId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? kNoSlot : it->second;
}

Slot JobTable::add(JobId id) {
  LARES_ASSERT(!free_.empty(), "no room for job {}", id.value);
  const Slot slot = free_.back();
  free_.pop_back();
  const bool fresh = by_id_.emplace(id, slot).second;
  LARES_ASSERT(fresh, "job {} was submitted twice", id.value);
  Job& job = jobs_[slot];
  auto keys = std::move(job.keys);  // Keeps its memory.
  keys.clear();
  job = Job{};
  job.keys = std::move(keys);
  job.id = id;
  return slot;
}

void JobTable::remove(Slot slot) {
  Job& job = jobs_[slot];
  LARES_ASSERT(job.at == Job::At::Free, "job {} is still in use", job.id.value);
  by_id_.erase(job.id);
  free_.push_back(slot);
}

std::size_t JobTable::LaneHash::operator()(const LaneKey& key) const {
  return hash_combine(key.owner, key.work);
}

std::uint32_t JobTable::lane_of(const Job& job) {
  const Accounts::Index task = by_task_ ? job.task : 0;
  const LaneKey key{(std::uint64_t{job.member} << 32U) | task,
                    (std::uint64_t{job.model.value} << 32U) | job.cls.value};
  const auto [it, fresh] = lane_by_key_.try_emplace(key, 0);
  if (!fresh) return it->second;
  if (free_lanes_.empty()) {
    free_lanes_.push_back(static_cast<std::uint32_t>(lanes_.size()));
    lanes_.emplace_back();
  }
  it->second = free_lanes_.back();
  free_lanes_.pop_back();
  Lane& lane = lanes_[it->second];
  lane = Lane{.task = task};
  lane.place = static_cast<std::uint32_t>(used_lanes_.size());
  used_lanes_.push_back(it->second);
  return it->second;
}

void JobTable::wait(Slot slot) {
  Job& job = jobs_[slot];
  LARES_ASSERT(job.at == Job::At::Free, "job {} is already somewhere", job.id.value);
  job.at = Job::At::Waiting;
  ++waiting_count_;
  job.lane = lane_of(job);
  Lane& lane = lanes_[job.lane];
  // New jobs go to the end; one that steps back is older than nearly all that wait.
  Slot before = kNoSlot;
  if (lane.last == kNoSlot || jobs_[lane.last].arrival < job.arrival) {
    before = lane.last;
  } else {
    for (Slot s = lane.first; s != kNoSlot && jobs_[s].arrival < job.arrival; s = jobs_[s].next)
      before = s;
  }
  job.previous = before;
  job.next = before == kNoSlot ? lane.first : jobs_[before].next;
  (before == kNoSlot ? lane.first : jobs_[before].next) = slot;
  (job.next == kNoSlot ? lane.last : jobs_[job.next].previous) = slot;
  changed(slot);
}

void JobTable::changed(Slot slot) {
  const Job& job = jobs_[slot];
  if (job.at != Job::At::Waiting) return;
  Lane& lane = lanes_[job.lane];
  if (lane.first == slot) lane.front = claimant(job);
}

void JobTable::unwait(Slot slot) {
  Job& job = jobs_[slot];
  LARES_ASSERT(job.at == Job::At::Waiting, "job {} does not wait", job.id.value);
  Lane& lane = lanes_[job.lane];
  (job.previous == kNoSlot ? lane.first : jobs_[job.previous].next) = job.next;
  (job.next == kNoSlot ? lane.last : jobs_[job.next].previous) = job.previous;
  job.previous = job.next = kNoSlot;
  job.at = Job::At::Free;
  --waiting_count_;
  if (lane.first != kNoSlot) return changed(lane.first);
  lane_by_key_.erase({(std::uint64_t{job.member} << 32U) | lane.task,
                      (std::uint64_t{job.model.value} << 32U) | job.cls.value});
  lanes_[used_lanes_.back()].place = lane.place;
  used_lanes_[lane.place] = used_lanes_.back();
  used_lanes_.pop_back();
  free_lanes_.push_back(job.lane);
}

std::vector<Slot> JobTable::all_waiting() const {
  std::vector<Slot> slots;
  slots.reserve(waiting_count_);
  for (const std::uint32_t index : used_lanes_) {
    for (Slot s = lanes_[index].first; s != kNoSlot; s = jobs_[s].next) slots.push_back(s);
  }
  std::ranges::sort(slots, {}, [this](Slot s) { return jobs_[s].arrival; });
  return slots;
}

void JobTable::check() const {
  std::uint32_t count = 0;
  for (const std::uint32_t index : used_lanes_) {
    const Lane& lane = lanes_[index];
    LARES_ASSERT(lane.first != kNoSlot, "lane {} is empty", index);
    LARES_ASSERT(lane.front == claimant(jobs_[lane.first]), "lane {} tells of another than job {}",
                 index, jobs_[lane.first].id.value);
    for (Slot s = lane.first; s != kNoSlot; s = jobs_[s].next) {
      const Job& job = jobs_[s];
      LARES_ASSERT(job.at == Job::At::Waiting && job.lane == index, "job {} is listed as waiting",
                   job.id.value);
      LARES_ASSERT(job.next == kNoSlot || jobs_[job.next].arrival > job.arrival,
                   "job {} waits out of order", job.id.value);
      ++count;
    }
  }
  LARES_ASSERT(count == waiting_count_, "{} wait, counted {}", count, waiting_count_);
  LARES_ASSERT(by_id_.size() + free_.size() == jobs_.size(), "{} jobs, {} free of {}",
               by_id_.size(), free_.size(), jobs_.size());
}

}  // namespace lares::sched
