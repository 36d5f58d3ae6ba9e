// Whether a job may start: by what the pool holds and is expected to, and by whose it is.
#include <algorithm>
#include <functional>

#include "sched/state.h"

namespace lares::sched {

// Its member's jobs would hold more of the pool than they may while another member waits. What is
// shared counts for each.
bool Scheduler::State::holds_too_much(const Model& m, const Job& job) const {
  if (options.member_pool == 1000) return false;
  std::uint64_t held = 0;
  for (const Slot slot : m.running) {
    if (jobs[slot].member == job.member) held += m.pool->held(jobs[slot].seq);
  }
  const std::uint64_t most = std::uint64_t{m.pool->blocks()} * options.member_pool / 1000;
  if (held == 0 || held + needed_blocks(job) <= most) return false;
  return std::ranges::any_of(jobs.lanes(), [&](std::uint32_t index) {
    const Lane& lane = jobs.lane(index);
    return lane.front.model == m.id && lane.front.member != job.member &&
           may_run(lane.front.member);
  });
}

// Output to make room for: twice what the member's jobs of the class came to of late, and half as
// much again as it has made; within its own limit. On the trace `real`, room for 1.25 times the
// usual lost a twentieth of the throughput to recomputing, and room for five times gained
// nothing.
std::uint32_t Scheduler::State::expected_output(const Job& job) const {
  const std::uint32_t usual =
      accounts.output_expected(job.member, job.cls.value, options.output_expected);
  const std::uint32_t made = job.produced + job.sampling;
  return std::min(std::max(2 * usual, made + made / 2), job.output_max);
}

std::uint32_t Scheduler::State::needed_blocks(const Job& job) const {
  return blocks_for(std::uint64_t{job.prompt} + expected_output(job));
}

bool Scheduler::State::fits(const Model& m, const Job& job, const KvPool::Match& match) {
  if (m.running.empty()) return true;  // could_fit() was asked when it came.
  const Batching& batching = options.batching;
  if (batching.reserve_tokens > 0) return fits_to_the_end(m, job, batching.reserve_tokens, true);
  const std::uint32_t need = needed_blocks(job) - std::min(needed_blocks(job), match.blocks);
  std::uint32_t room = m.pool->blocks_free() + m.pool->blocks_reclaimable();
  if (m.pool->state(match.seq) == KvPool::State::Cached) {
    room -= std::min(room, match.blocks);  // What is shared cannot be reclaimed too.
  }
  if (!traits.by_time) return need <= room;
  // Shared blocks are counted for each of their sequences: on the safe side.
  return blocks_for(job.known()) - match.blocks <= room &&
         fits_to_the_end(m, job, m.pool->blocks() * kBlockTokens, false);
}

// Whenever one of them ends, all that run, this one included, fit.
bool Scheduler::State::fits_to_the_end(const Model& m, const Job& job, std::uint32_t tokens,
                                       bool full_output) {
  futures.clear();
  const auto add = [&](const Job& j) {
    const std::uint32_t output = full_output ? j.output_max : expected_output(j);
    futures.push_back(
        {output - j.produced - j.sampling, j.known() + (full_output ? 0 : kBlockTokens)});
  };
  for (const Slot slot : m.running) add(jobs[slot]);
  add(job);
  std::ranges::sort(futures, std::greater<>{}, &Future::left);
  std::uint64_t held = 0, jobs = 0;
  for (const auto& [left, now] : futures) {
    held += now;
    if (held + ++jobs * left > tokens) return false;
  }
  return true;
}

}  // namespace lares::sched
