// Who wants the device, and in which order: turns the state into what a policy ranks.
#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "sched/state.h"

namespace lares::sched {

Instant Device::free_at(Instant now) const {
  Duration predicted{};
  for (std::uint32_t r = 0; r < count; ++r) predicted += runs[r].predicted;
  return count == 0 ? now : std::max(now, began + predicted);
}

bool Scheduler::State::may_run(Accounts::Index index) const {
  const Accounts::Member& member = accounts[index];
  return member.limits.running_max == 0 || member.running < member.limits.running_max;
}

bool Scheduler::State::may_start(Slot slot) const {
  return jobs[slot].unanswered == 0 && may_run(jobs[slot].member);
}

Scheduler::State::Oldest& Scheduler::State::oldest_of(Accounts::Index member, ClassId cls) {
  return oldest[std::size_t{member} * options.classes.size() + cls.value];
}

// Marks, for each member and class, the job unserved longest, and which classes want prompt tokens.
// One that waits for its first chunk for too long goes before those that have begun.
void Scheduler::State::find_oldest() {
  oldest.resize(std::size_t{accounts.size()} * options.classes.size());
  classes_waiting = 0;
  class_shares.clear();
  for (std::uint32_t c = 0; c < options.classes.size(); ++c)
    class_shares.push_back(accounts.class_share(c));
  least_served.assign(options.classes.size(), std::numeric_limits<std::int64_t>::max());
  const auto consider = [&](const Claimant& job, Slot slot) {
    classes_waiting |= std::uint64_t{1} << job.cls.value;
    Oldest& best = oldest_of(job.member, job.cls);
    const bool in_time =
        job.started || now - job.served <= options.classes[job.cls.value].longest_wait;
    if (best.plan == plans &&
        std::pair(best.in_time, best.served) <= std::pair(in_time, job.served))
      return;
    best.plan = plans;
    best.slot = slot;
    best.in_time = in_time;
    best.served = job.served;
  };
  for (const Model& m : models) {
    for (const Slot slot : m.running) {
      const Job& job = jobs[slot];
      std::int64_t& least = least_served[job.cls.value];
      least = std::min(least, accounts[job.member].service());
      if (job.need() > 0 && !job.decodes()) consider(claimant(job), slot);
    }
  }
  for (const std::uint32_t lane : jobs.lanes())
    consider(jobs.lane(lane).front, jobs.lane(lane).first);
}

bool Scheduler::State::is_ahead(const Claimant& job) const {
  const std::int64_t least = least_served[job.cls.value];
  const std::int64_t own = accounts[job.member].service();
  return least < own && own - least > options.lead_max.count();
}

// What every policy may ask of a job.
Candidate Scheduler::State::candidate(const Claimant& job) const {
  const Accounts::Member& member = accounts[job.member];
  Candidate c;
  c.started = job.started;
  c.arrival = job.arrival;
  c.member_counter = member.counter;
  c.member_service = member.service();
  c.task_service = accounts.task(job.task).counter;
  c.cls = job.cls.value;
  c.spec = &options.classes[job.cls.value];
  return c;
}

Rank Scheduler::State::rank(const Claimant& job, Slot slot) {
  Candidate c = candidate(job);
  if (!traits.by_time) return policy->rank(c);

  const Oldest& longest = oldest_of(job.member, job.cls);
  c.unserved = now - job.served;
  c.passed_over = now - std::max(job.served, longest.turn);
  const std::uint64_t own = std::uint64_t{1} << job.cls.value;
  c.others_wait = (classes_waiting & ~own) != 0;
  c.class_share = class_shares[job.cls.value];
  c.oldest = longest.plan == plans && longest.slot == slot;
  const Duration target =
      c.spec->first_target > Duration{} ? c.spec->first_target : c.spec->completion_target;
  c.has_deadline = target > Duration{};
  const Duration left = job.submitted + target - now;
  c.late = left < Duration{};
  c.ahead = is_ahead(job);
  const Model& m = models[job.model.value];
  c.slack = left - Duration(job.left * m.prompt_ns);
  return policy->rank(c);
}

// When the stream's next output is late. One that is in flight arrives when the device is free.
Duration Scheduler::State::stream_slack(const Job& job, Instant start) const {
  const Instant last = job.sampling > 0 ? start : job.last_output;
  return last + options.classes[job.cls.value].gap_target - start;
}

// A live stream beside work of other models: urgent if a step of theirs would make it late.
Rank Scheduler::State::stream_rank(Slot slot, Instant start) const {
  const Job& job = jobs[slot];
  const Model& m = models[job.model.value];
  Candidate c = candidate(claimant(job));
  c.oldest = false;
  c.slack = stream_slack(job, start);
  const auto decodes = static_cast<std::uint32_t>(m.running.size());
  c.has_deadline =
      c.spec->gap_target > Duration{} && c.slack < options.slice + m.cost.time({.tokens = decodes});
  return policy->rank(c);
}

void Scheduler::State::collect_claims(const Model& m) {
  claims.clear();
  for (const Slot slot : m.running) {
    if (jobs[slot].need() > 0 && jobs[slot].in_step != plans && !jobs[slot].decodes())
      claims.push_back({rank(slot), slot});
  }
  claims_running = static_cast<std::uint32_t>(claims.size());
  for (const std::uint32_t index : jobs.lanes()) {
    const Lane& lane = jobs.lane(index);
    if (lane.front.model != m.id) continue;
    // One that stepped back a moment ago is waited for: nobody of its lane overtakes it.
    if (lane.front.answered && may_run(lane.front.member))
      claims.push_back({rank(lane.front, lane.first), lane.first});
  }
  std::ranges::make_heap(claims, std::greater<>{}, &Claim::rank);
}

// The time until the first live stream of the device is late, if nothing were done from `start`.
// One that stepped back and is computed again is no live stream: it is late already, and waits for
// the very prompt tokens that a short step would deny it.
Duration Scheduler::State::least_slack(DeviceId device, Instant start) const {
  Duration least = Duration::max();
  for (const Model& m : models) {
    if (m.device != device) continue;
    for (const Slot slot : m.running) {
      const Job& job = jobs[slot];
      if (!job.decodes() || options.classes[job.cls.value].gap_target == Duration{}) continue;
      least = std::min(least, stream_slack(job, start));
    }
  }
  return least;
}

// By policy: the model that waited longest for a step goes first; by time, the one whose claim or
// live stream ranks first.
void Scheduler::State::order_models(const Device& device) {
  order.clear();
  for (const Model& m : models) {
    if (m.at == Model::At::Ready && m.device == device.id) order.push_back(m.id);
  }
  model_ranks.assign(models.size(), Rank{});
  if (traits.by_time && order.size() > 1) {
    for (const ModelId id : order) model_ranks[id.value] = rank_model(models[id.value], device);
  }
  std::ranges::sort(order, {}, [this](ModelId id) {
    return std::tuple(model_ranks[id.value], models[id.value].last_planned, id.value);
  });
}

Rank Scheduler::State::rank_model(const Model& m, const Device& device) {
  collect_claims(m);
  Rank best{.group = ~0U};
  if (!claims.empty()) best = claims.front().rank;
  const Instant start = device.free_at(now);
  for (const Slot slot : m.running) {
    if (jobs[slot].decodes()) best = std::min(best, stream_rank(slot, start));
  }
  return best;
}

}  // namespace lares::sched
