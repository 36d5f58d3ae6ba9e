// Who waits, in which order, why, and for how long: for people. Not on the path of a step.
#include <algorithm>

#include "sched/state.h"

namespace lares::sched {
namespace {

constexpr std::int64_t kSlowestReading = 8;  // Times slower than alone, beside live streams.

// How many times longer prompts take to read because the device's streams go on meanwhile.
std::int64_t slowdown(const Model& m, const Options& options) {
  const auto streams = static_cast<std::uint32_t>(m.running.size());
  if (streams == 0) return 1;
  const Duration decodes = m.cost.time({.tokens = streams});
  if (decodes * kSlowestReading >= options.slice * (kSlowestReading - 1)) return kSlowestReading;
  return options.slice / (options.slice - decodes);
}

// Until one more of the running jobs ends, as far as recent lengths tell.
Duration next_end(const Scheduler::State& s, const Model& m) {
  std::int64_t least = -1;
  for (const Slot slot : m.running) {
    const Job& job = s.jobs[slot];
    const std::uint32_t usual =
        s.accounts.output_expected(job.member, job.cls.value, s.options.output_expected);
    const std::int64_t left = std::int64_t{std::min(usual, job.output_max)} - job.produced;
    if (least < 0 || left < least) least = std::max<std::int64_t>(left, 1);
  }
  const auto streams = static_cast<std::uint32_t>(m.running.size());
  return std::max<std::int64_t>(least, 0) * m.cost.time({.tokens = streams});
}

// What is left of a job, in the device time that others like it were charged.
std::int64_t work_left(const Scheduler::State& s, const Model& m, const Job& job) {
  const std::uint32_t usual =
      s.accounts.output_expected(job.member, job.cls.value, s.options.output_expected);
  const std::int64_t output =
      std::max<std::int64_t>(std::int64_t{std::min(usual, job.output_max)} - job.produced, 1);
  return std::int64_t{job.known() - job.planned} * m.prompt_ns + output * m.output_ns;
}

// What goes before the next job in the order, on one model.
struct Ahead {
  std::int64_t prompts = 0;  // Nanoseconds of prompts to be read.
  std::int64_t work = 0;     // Of everything, running jobs included.
  std::int64_t jobs = 0;     // That run or wait.
  std::int64_t at_once = 0;  // That run, or will as soon as their turn comes.
  std::uint32_t room = 0;    // Blocks for those that wait.
  bool full = false;         // Somebody ahead waits for memory.
};

Ahead ahead_of_all(const Scheduler::State& s, const Model& m) {
  Ahead a;
  if (m.limits.graphs) {
    a.room = ~0U;
  } else if (m.at == Model::At::Ready) {
    a.room = m.pool->blocks_free() + m.pool->blocks_reclaimable();
  }
  for (const Slot slot : m.running) {
    const Job& job = s.jobs[slot];
    if (!job.decodes()) a.prompts += std::int64_t{job.need()} * m.prompt_ns;
    a.work += work_left(s, m, job);
    ++a.jobs;
    ++a.at_once;
  }
  return a;
}

// Until one begins that has no room yet: all the work before it, but for what the others that will
// run beside it will still have before them, which is half of each.
Duration until_room(const Ahead& a, Duration next_end) {
  const std::int64_t beside = a.jobs == 0 ? 0 : a.at_once * (a.work / a.jobs) / 2;
  return std::max(Duration(a.work - beside), next_end);
}

}  // namespace

std::vector<Scheduler::Place> Scheduler::queue() {
  State& s = *state_;
  ++s.plans;
  if (s.traits.by_time) s.find_oldest();
  std::vector<std::pair<Rank, Slot>> order;
  for (const Slot slot : s.jobs.all_waiting()) order.emplace_back(s.rank(slot), slot);
  std::ranges::sort(order);  // No two are equal: a rank ends with the arrival.
  std::vector<Place> places;
  std::vector<Ahead> aheads;  // By model.
  for (const Model& m : s.models) aheads.push_back(ahead_of_all(s, m));
  std::vector<std::uint32_t> own(s.accounts.size());
  for (const auto& [rank, slot] : order) {
    const Job& job = s.jobs[slot];
    const Model& m = s.models[job.model.value];
    Ahead& ahead = aheads[m.id.value];
    Place place{.job = job.id, .position = static_cast<std::uint32_t>(places.size())};
    place.ahead_own = own[job.member]++;
    place.estimate = Duration(ahead.prompts * slowdown(m, s.options));
    const std::uint32_t blocks =
        job.known() / kBlockTokens + 1;  // About what it will be asked for.
    if (m.at != Model::At::Ready) {
      place.why = Why::ModelLoads;
    } else if (!s.may_run(job.member)) {
      place.why = Why::OwnLimit;
    } else if (ahead.full || ahead.at_once >= s.options.running_max || blocks > ahead.room) {
      place.why = Why::Memory;
      place.estimate = until_room(ahead, next_end(s, m));
      ahead.full = true;
    } else {
      ahead.room -= blocks;
      ++ahead.at_once;
    }
    ahead.prompts += std::int64_t{job.known()} * m.prompt_ns;
    ahead.work += work_left(s, m, job);
    ++ahead.jobs;
    places.push_back(place);
  }
  return places;
}

}  // namespace lares::sched
