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

}  // namespace

std::vector<Scheduler::Place> Scheduler::queue() {
  State& s = *state_;
  ++s.plans;
  if (s.traits.by_time) s.find_oldest();
  std::vector<std::pair<Rank, Slot>> order;
  for (const Slot slot : s.jobs.all_waiting()) order.emplace_back(s.rank(slot), slot);
  std::ranges::sort(order);  // No two are equal: a rank ends with the arrival.
  std::vector<Place> places;
  std::vector<std::int64_t> prompts(s.models.size());  // Nanoseconds of prompts ahead, by model.
  std::vector<std::uint32_t> own(s.accounts.size());
  for (const Model& m : s.models) {
    for (const Slot slot : m.running) {
      const Job& job = s.jobs[slot];
      if (!job.decodes()) prompts[m.id.value] += std::int64_t{job.need()} * m.prompt_ns;
    }
  }
  for (const auto& [rank, slot] : order) {
    const Job& job = s.jobs[slot];
    const Model& m = s.models[job.model.value];
    Place place{.job = job.id, .position = static_cast<std::uint32_t>(places.size())};
    place.ahead_own = own[job.member]++;
    std::int64_t& ahead = prompts[m.id.value];
    place.estimate = Duration(ahead * slowdown(m, s.options));
    ahead += std::int64_t{job.known()} * m.prompt_ns;
    if (m.at != Model::At::Ready) {
      place.why = Why::ModelLoads;
    } else if (!s.may_run(job)) {
      place.why = Why::OwnLimit;
    } else if (m.running.size() >= s.options.running_max || !s.has_room(m, job)) {
      place.why = Why::Memory;
      place.estimate += next_end(s, m);
    }
    places.push_back(place);
  }
  return places;
}

// Roughly what the step builder asks before it starts a job.
bool Scheduler::State::has_room(const Model& m, const Job& job) const {
  const std::uint32_t blocks = m.pool->blocks_free() + m.pool->blocks_reclaimable();
  return job.known() / kBlockTokens + 1 <= blocks;
}

}  // namespace lares::sched
