#include "core/assert.h"
#include "sched/state.h"

namespace lares::sched {

JobTable::JobTable(std::uint32_t jobs_max) {
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

void JobTable::wait(Slot slot) {
  Job& job = jobs_[slot];
  LARES_ASSERT(job.at == Job::At::Free, "job {} is already somewhere", job.id.value);
  job.at = Job::At::Waiting;
  ++waiting_count_;
  // New jobs go to the end; one that steps back is older than nearly all that wait.
  Slot before = kNoSlot;
  if (last_ == kNoSlot || jobs_[last_].arrival < job.arrival) {
    before = last_;
  } else {
    for (Slot s = first_; s != kNoSlot && jobs_[s].arrival < job.arrival; s = jobs_[s].next)
      before = s;
  }
  job.previous = before;
  job.next = before == kNoSlot ? first_ : jobs_[before].next;
  (before == kNoSlot ? first_ : jobs_[before].next) = slot;
  (job.next == kNoSlot ? last_ : jobs_[job.next].previous) = slot;
}

void JobTable::unwait(Slot slot) {
  Job& job = jobs_[slot];
  LARES_ASSERT(job.at == Job::At::Waiting, "job {} does not wait", job.id.value);
  (job.previous == kNoSlot ? first_ : jobs_[job.previous].next) = job.next;
  (job.next == kNoSlot ? last_ : jobs_[job.next].previous) = job.previous;
  job.previous = job.next = kNoSlot;
  job.at = Job::At::Free;
  --waiting_count_;
}

void JobTable::check() const {
  std::uint32_t count = 0;
  for (Slot s = first_; s != kNoSlot; s = jobs_[s].next) {
    const Job& job = jobs_[s];
    LARES_ASSERT(job.at == Job::At::Waiting, "job {} is listed as waiting", job.id.value);
    LARES_ASSERT(job.next == kNoSlot || jobs_[job.next].arrival > job.arrival,
                 "job {} waits out of order", job.id.value);
    ++count;
  }
  LARES_ASSERT(count == waiting_count_, "{} wait, counted {}", count, waiting_count_);
  LARES_ASSERT(by_id_.size() + free_.size() == jobs_.size(), "{} jobs, {} free of {}",
               by_id_.size(), free_.size(), jobs_.size());
}

}  // namespace lares::sched
