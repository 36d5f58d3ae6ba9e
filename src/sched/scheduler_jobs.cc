// What happens to jobs: they arrive, run, are charged for it, step back and end.
#include <algorithm>

#include "core/assert.h"
#include "sched/state.h"

namespace lares::sched {
namespace {

constexpr std::uint32_t kCacheLeast = 1024;                 // See kCacheFirst in scheduler.cc.
constexpr std::int64_t kPromptToken = 1, kOutputToken = 2;  // Of Currency::Tokens, as published.
constexpr std::int64_t kRecent = 16;  // A new price counts a sixteenth of what is remembered.

// took / whole, for many parts of the whole, without overflow: steps of up to a minute, stretched
// up to 64 times.
class Stretch {
 public:
  Stretch(std::int64_t took, std::int64_t whole)
      : ratio_(std::min(std::min(took, kMinute) * kUnit / whole, 64 * kUnit)) {}
  [[nodiscard]] std::int64_t of(std::int64_t part) const {
    return std::min(part, kMinute) * ratio_ / kUnit;
  }

 private:
  static constexpr std::int64_t kUnit = 1 << 20, kMinute = std::int64_t{1} << 36;
  std::int64_t ratio_;
};

}  // namespace

bool could_fit(const Job& job, const Model& model) {
  if (model.limits.graphs) return true;
  const std::uint64_t tokens = std::uint64_t{job.prompt} + job.output_max;
  return tokens <= model.limits.context &&
         tokens <= model.pool->blocks() * std::uint64_t{kBlockTokens};
}

void Scheduler::State::on(const MemberChanged& event, Decision& /*out*/) {
  accounts.set_limits(event.member, event.limits);
}

void Scheduler::State::on(const Submitted& event, Decision& out) {
  Model& m = model(event.model);
  const Accounts::Index member = accounts.member(event.member);
  const Accounts::Member& account = accounts[member];
  if (jobs.full()) {
    out.actions.emplace_back(Reject{event.job, Reason::QueueFull});
    return;
  }
  if (account.limits.waiting_max > 0 && account.waiting >= account.limits.waiting_max) {
    out.actions.emplace_back(Reject{event.job, Reason::MemberQueueFull});
    return;
  }
  LARES_ASSERT(event.prompt > 0, "job {} is empty", event.job.value);
  LARES_ASSERT(event.cls.value < options.classes.size(), "job {}: class {}", event.job.value,
               event.cls.value);
  const Slot slot = jobs.add(event.job);
  Job& job = jobs[slot];
  job.member = member;
  job.task_id = event.task;
  job.task = accounts.submitted(member, event.task);
  job.cls = event.cls;
  job.model = event.model;
  job.arrival = ++arrivals;
  job.submitted = job.served = now;
  job.prompt = event.prompt;
  job.output_max = event.output_max;
  job.batch_key = event.batch_key;
  job.keys.assign(event.blocks.begin(), event.blocks.end());
  jobs.wait(slot);
  count_use(m);
  if (m.at == Model::At::Absent) look_at_models = true;
  if (m.at == Model::At::Failed) {
    reject(slot, Reason::ModelFailed, out);
  } else if (m.at == Model::At::Ready && !could_fit(job, m)) {
    reject(slot, Reason::NeverFits, out);
  }
}

void Scheduler::State::on(const Ended& event, Decision& out) {
  const Slot slot = jobs.find(event.job);
  if (slot != kNoSlot) release(slot, event.blocks, event.cause, out);
}

void Scheduler::State::on(const Stepped& event, Decision& out) {
  Device& d = device(event.device);
  LARES_ASSERT(d.count > 0 && d.runs[0].run == event.run, "run {} was not the oldest unanswered",
               event.run.value);
  const Unanswered& run = d.runs[0];
  LARES_ASSERT(run.items.size() == event.items.size(), "run {} had {} items, answered {}",
               event.run.value, run.items.size(), event.items.size());
  Model& m = model(run.model);
  if (m.limits.graphs) {
    graphs_stepped(m, run, event, out);
  } else {
    for (std::size_t i = 0; i < run.items.size(); ++i) item_done(m, run.items[i], event.items[i]);
    charge(m, run, event, out);
  }
  m.used_at = now;
  std::rotate(d.runs.begin(), d.runs.begin() + 1, d.runs.end());
  --d.count;
  d.began = now;
}

void Scheduler::State::item_done(Model& m, const PlannedItem& item, const ItemDone& done) {
  Job& job = jobs[item.slot];
  if (job.at == Job::At::Free || job.id != item.job) return;
  LARES_ASSERT(done.tokens <= item.tokens, "{} tokens done of {}", done.tokens, item.tokens);
  --job.unanswered;
  job.losses = 0;
  if (done.sampled) {
    ++job.produced;
    job.last_output = now;
  }
  jobs.changed(item.slot);
  if (job.epoch != item.epoch) return;  // Its sequence is gone; the token it made stays.
  if (item.samples) --job.sampling;
  job.planned -= item.tokens - done.tokens;
  job.computed += done.tokens;
  const auto blocks = std::min<std::size_t>(job.computed / kBlockTokens, job.keys.size());
  if (blocks > 0) m.pool->set_keys(job.seq, std::span(job.keys).first(blocks));
  expect(job, m);
}

// Splits the step's measured time: to each item its marginal cost, as the table predicts it, and an
// equal part of what is fixed.
void Scheduler::State::charge(Model& m, const Unanswered& run, const Stepped& event,
                              Decision& out) {
  StepShape shape = run.shape;
  std::uint32_t did = 0;
  for (std::size_t i = 0; i < run.items.size(); ++i) {
    const PlannedItem& item = run.items[i];
    const std::uint32_t undone = item.tokens - event.items[i].tokens;
    if (event.items[i].tokens > 0) ++did;
    if (undone == 0) continue;
    shape.remove(item.from + event.items[i].tokens, undone, item.tokens > 1);
  }
  if (did == 0) return;
  const std::int64_t took = event.took.count();
  const std::int64_t predicted = std::max<std::int64_t>(m.cost.time(shape).count(), 1);
  const Stretch as_measured(took, predicted);
  marginal_costs.clear();
  std::int64_t marginals = 0;
  for (std::size_t i = 0; i < run.items.size(); ++i) {
    const PlannedItem& item = run.items[i];
    const std::uint32_t done = event.items[i].tokens;
    const std::int64_t alone =
        done == 0 ? 0 : m.cost.marginal(shape, predicted, item.from, done, item.tokens > 1);
    marginal_costs.push_back(as_measured.of(alone));
    marginals += marginal_costs.back();
  }
  const Stretch shortened(took, std::max<std::int64_t>(marginals, 1));
  const std::int64_t fixed = std::max<std::int64_t>(took - marginals, 0) / did;
  std::int64_t left = took;
  for (std::size_t i = 0; i < run.items.size(); ++i) {
    if (event.items[i].tokens == 0) continue;
    std::int64_t share = marginal_costs[i] + fixed;
    if (marginals > took) share = shortened.of(share);
    share = std::clamp<std::int64_t>(--did == 0 ? left : share, 0, left);
    left -= share;
    charge_item(m, run.items[i], event.items[i], Duration(share));
    out.charges.push_back(
        Charge{run.items[i].job, accounts[run.items[i].member].id, Duration(share)});
  }
  m.cost.observe(shape, event.took);
}

void Scheduler::State::charge_item(Model& m, const PlannedItem& item, const ItemDone& done,
                                   Duration share) {
  std::int64_t service = share.count();
  if (traits.currency == Currency::Tokens) service = done.sampled ? kOutputToken : 0;
  accounts.charge(item.member, item.task, item.task_id, service);
  accounts.class_served(item.cls.value, share);
  std::int64_t& price = item.tokens > 1 ? m.prompt_ns : m.output_ns;
  const std::int64_t each = done.tokens == 1 ? share.count() : share.count() / done.tokens;
  price += (each - price) / kRecent;
}

void Scheduler::State::expect(Job& job, const Model& m) {
  if (traits.currency == Currency::Tokens) return;
  std::int64_t service = 0;
  if (job.at == Job::At::Running) {
    const std::uint32_t expected =
        std::min(accounts.output_expected(job.member, job.cls.value, options.output_expected),
                 job.output_max);
    std::int64_t prompt = job.prompt - std::min(job.prompt, job.computed);
    // Of graphs each pass is decided anew.
    if (m.limits.graphs) prompt = std::min<std::int64_t>(prompt, 1);
    const std::int64_t output = expected - std::min(expected, job.produced);
    service = accounts.per_weight(job.member, prompt * m.prompt_ns + output * m.output_ns);
  }
  accounts[job.member].outstanding += service - job.expected;
  job.expected = service;
}

void Scheduler::State::begin(Model& m, Slot slot, SeqId seq, std::uint32_t cached) {
  Job& job = jobs[slot];
  jobs.unwait(slot);
  accounts.left_queue(job.member);
  accounts.started(job.member);
  job.seq = seq;
  job.at = Job::At::Running;
  job.started = now;
  job.planned = job.computed = cached;
  const auto place =
      std::ranges::upper_bound(m.running, job.arrival, {}, [&](Slot s) { return jobs[s].arrival; });
  m.running.insert(place, slot);
  ++running;
  if (traits.currency == Currency::Tokens && job.produced == 0) {
    accounts.charge(job.member, job.task, job.task_id, kPromptToken * (job.prompt - cached));
  }
  expect(job, m);
}

void Scheduler::State::stop(Model& m, Slot slot) {
  Job& job = jobs[slot];
  if (m.limits.graphs) leave_pass(m, slot);
  std::erase(m.running, slot);
  --running;
  job.at = Job::At::Free;
  expect(job, m);
  accounts.stopped(job.member);
}

void Scheduler::State::step_back(Model& m, Slot slot) {
  Job& job = jobs[slot];
  stop(m, slot);
  job.planned = job.computed = job.sampling = 0;
  ++job.epoch;
  jobs.wait(slot);
  accounts.back_in_queue(job.member);
}

void Scheduler::State::reject(Slot slot, Reason reason, Decision& out) {
  Job& job = jobs[slot];
  forget_state(job, out);
  out.actions.emplace_back(Reject{job.id, reason});
  jobs.unwait(slot);
  accounts.left_queue(job.member);
  forget_job(slot);
}

void Scheduler::State::forget_job(Slot slot) {
  const Job& job = jobs[slot];
  accounts.task_done(job.task);
  if (models[job.model.value].need.keep != Duration::max()) look_at_models = true;
  jobs.remove(slot);
}

void Scheduler::State::release(Slot slot, std::span<const std::uint64_t> keys, EndCause cause,
                               Decision& out) {
  Job& job = jobs[slot];
  forget_state(job, out);
  if (job.produced > 0 && cause == EndCause::Finished)
    accounts.output_seen(job.member, job.cls.value, job.produced);
  if (job.at == Job::At::Waiting) {
    jobs.unwait(slot);
    accounts.left_queue(job.member);
  } else {
    Model& m = model(job.model);
    stop(m, slot);
    if (m.limits.graphs) return forget_job(slot);
    const auto whole = std::min<std::size_t>(job.computed / kBlockTokens, keys.size());
    const bool worth = cause != EndCause::Failed && m.limits.cut_anywhere && whole > 0 &&
                       whole * kBlockTokens <= options.cache_tokens;
    if (worth) {
      m.pool->cache(job.seq, keys.first(whole));
      trim_cache(m, job.seq, out);
    } else {
      m.pool->drop(job.seq);
      out.actions.emplace_back(DropSequence{m.device, m.id, job.seq});
    }
  }
  forget_job(slot);
}

// Every cached cell widens what each step works over, so the budget follows the use: it shrinks by
// what is evicted without ever having matched, and a match doubles it (StepBuilder::start), within
// [kCacheLeast, cache_tokens]. The newest sequence stays: it is the likeliest to be continued.
void Scheduler::State::trim_cache(Model& m, SeqId newest, Decision& out) {
  const std::uint32_t least = std::min(kCacheLeast, options.cache_tokens);
  while (m.pool->blocks_reclaimable() > m.cache_budget / kBlockTokens) {
    const auto oldest = m.pool->least_recent_cached(newest);
    if (!oldest) return;
    const bool useful = m.pool->was_useful(*oldest);
    const std::uint32_t free_before = m.pool->blocks_free();
    evict(m, *oldest, out);
    const std::uint32_t freed = (m.pool->blocks_free() - free_before) * kBlockTokens;
    if (!useful) m.cache_budget = std::max(m.cache_budget - std::min(m.cache_budget, freed), least);
  }
}

}  // namespace lares::sched
