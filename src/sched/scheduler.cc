#include "sched/scheduler.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/assert.h"
#include "sched/state.h"

namespace lares::sched {
namespace {

Result<> in_range(std::string_view name, std::uint32_t value, std::uint32_t low,
                  std::uint32_t high) {
  if (value >= low && value <= high) return {};
  return fail(Code::Invalid,
              fmt::format("scheduler.{} is {}; it must be {} to {}", name, value, low, high));
}

// Measured with a 0.1B model on two cores (BENCHMARKS.md): with up to 2,500 cached tokens, reading
// a prompt of 200 took a quarter to a third longer than with none; within this budget, about a
// tenth.
constexpr std::uint32_t kCacheFirst = 2048;
constexpr std::uint32_t kCacheLeast = 1024;

bool could_fit(const Job& job, const Model& model) {
  const std::uint64_t tokens = std::uint64_t{job.prompt} + job.output_max;
  return tokens <= model.limits.context &&
         tokens <= model.pool->blocks() * std::uint64_t{kBlockTokens};
}

}  // namespace

Result<Scheduler> Scheduler::create(const Options& options) {
  TRY_VOID(in_range("jobs", options.jobs_max, 1, 1U << 20U));
  TRY_VOID(in_range("sequences", options.running_max, 1, 256));
  TRY_VOID(in_range("step_tokens", options.step_tokens, 1, 65536));
  TRY_VOID(in_range("runs_in_flight", options.runs_in_flight, 1, 2));
  TRY_VOID(in_range("output_expected", options.output_expected, 0, 65536));
  TRY_VOID(in_range("losses_max", options.losses_max, 1, 100));
  auto policy = TRY(make_policy(options.policy));
  return Scheduler(std::make_unique<State>(options, std::move(policy)));
}

Scheduler::Scheduler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;
Scheduler::~Scheduler() = default;

void Scheduler::step(Instant now, std::span<const Event> events, Decision& out) {
  LARES_ASSERT(now >= state_->now, "time went back by {} ns", (state_->now - now).count());
  state_->now = now;
  out.clear();
  for (const Event& event : events) {
    std::visit([&](const auto& e) { state_->on(e, out); }, event);
  }
  state_->request_loads(out);
  for (Device& device : state_->devices) state_->plan(device, out);
}

std::uint32_t Scheduler::waiting() const {
  return state_->jobs.waiting();
}
std::uint32_t Scheduler::running() const {
  return state_->running;
}

Scheduler::PoolUse Scheduler::pool(ModelId model) const {
  if (model.value >= state_->models.size() || !state_->models[model.value].pool) return {};
  const KvPool& pool = *state_->models[model.value].pool;
  return {.tokens = pool.blocks() * kBlockTokens,
          .free = pool.blocks_free() * kBlockTokens,
          .cached = pool.blocks_reclaimable() * kBlockTokens};
}

Model& Scheduler::State::model(ModelId id) {
  LARES_ASSERT(id.value < 65536, "model {}", id.value);
  while (models.size() <= id.value) {
    Model fresh;
    fresh.id = ModelId{static_cast<std::uint32_t>(models.size())};
    models.push_back(std::move(fresh));
  }
  return models[id.value];
}

Device& Scheduler::State::device(DeviceId id) {
  LARES_ASSERT(id.value < 256, "device {}", id.value);
  while (devices.size() <= id.value) {
    Device fresh;
    fresh.id = DeviceId{static_cast<std::uint32_t>(devices.size())};
    devices.push_back(std::move(fresh));
  }
  return devices[id.value];
}

void Scheduler::State::on(const ModelReady& event, Decision& out) {
  Model& m = model(event.model);
  LARES_ASSERT(m.running.empty(), "model {} became ready while it ran", event.model.value);
  device(event.device);
  m.device = event.device;
  m.limits = event.limits;
  m.at = Model::At::Ready;
  m.pool.emplace(event.limits.pool_tokens, event.limits.sequences);
  m.cache_budget = std::min(kCacheFirst, options.cache_tokens);
  for (Slot s = jobs.first_waiting(); s != kNoSlot;) {
    const Slot next = jobs[s].next;
    if (jobs[s].model == event.model && !could_fit(jobs[s], m)) reject(s, Reason::NeverFits, out);
    s = next;
  }
}

void Scheduler::State::on(const ModelFailed& event, Decision& out) {
  Model& m = model(event.model);
  forget_sequences(m);
  m.at = Model::At::Failed;
  reject_all(m, out);
}

void Scheduler::State::on(const ModelForgotten& event, Decision& /*out*/) {
  Model& m = model(event.model);
  forget_sequences(m);
  m.at = Model::At::Absent;
  look_for_loads = true;
}

void Scheduler::State::on(const DeviceLost& event, Decision& out) {
  Device& d = device(event.device);
  for (std::uint32_t r = 0; r < d.count; ++r) {
    for (const PlannedItem& item : d.runs[r].items) {
      Job& job = jobs[item.slot];
      if (job.at == Job::At::Free || job.id != item.job) continue;
      --job.unanswered;
      // Only the run that was computing can have killed the worker.
      if (r == 0) ++job.losses;
    }
  }
  d.count = 0;
  for (Model& m : models) {
    if (m.device != event.device || m.at == Model::At::Failed) continue;
    forget_sequences(m);
    m.at = Model::At::Absent;
  }
  look_for_loads = true;
  for (Slot s = jobs.first_waiting(); s != kNoSlot;) {
    const Slot next = jobs[s].next;
    if (jobs[s].losses >= options.losses_max) reject(s, Reason::FailedRepeatedly, out);
    s = next;
  }
}

void Scheduler::State::on(const Submitted& event, Decision& out) {
  Model& m = model(event.model);
  if (jobs.full()) {
    out.actions.emplace_back(Reject{event.job, Reason::QueueFull});
    return;
  }
  LARES_ASSERT(event.prompt > 0 && event.output_max > 0, "job {}: prompt {}, output {}",
               event.job.value, event.prompt, event.output_max);
  const Slot slot = jobs.add(event.job);
  Job& job = jobs[slot];
  job.member = event.member;
  job.cls = event.cls;
  job.task = event.task;
  job.model = event.model;
  job.arrival = ++arrivals;
  job.prompt = event.prompt;
  job.output_max = event.output_max;
  job.keys.assign(event.blocks.begin(), event.blocks.end());
  jobs.wait(slot);
  if (m.at == Model::At::Absent) look_for_loads = true;
  if (m.at == Model::At::Failed) reject(slot, Reason::ModelFailed, out);
  if (m.at == Model::At::Ready && !could_fit(job, m)) reject(slot, Reason::NeverFits, out);
}

void Scheduler::State::on(const Ended& event, Decision& out) {
  const Slot slot = jobs.find(event.job);
  if (slot != kNoSlot) release(slot, event.blocks, event.cause, out);
}

void Scheduler::State::on(const Stepped& event, Decision& /*out*/) {
  Device& d = device(event.device);
  LARES_ASSERT(d.count > 0 && d.runs[0].run == event.run, "run {} was not the oldest unanswered",
               event.run.value);
  const std::vector<PlannedItem>& planned = d.runs[0].items;
  LARES_ASSERT(planned.size() == event.items.size(), "run {} had {} items, answered {}",
               event.run.value, planned.size(), event.items.size());
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const PlannedItem& item = planned[i];
    const ItemDone& done = event.items[i];
    Job& job = jobs[item.slot];
    if (job.at == Job::At::Free || job.id != item.job) continue;
    LARES_ASSERT(done.tokens <= item.tokens, "{} tokens done of {}", done.tokens, item.tokens);
    --job.unanswered;
    job.losses = 0;
    if (done.sampled) ++job.produced;
    if (job.epoch != item.epoch) continue;  // Its sequence is gone; the token it made stays.
    if (item.samples) --job.sampling;
    job.planned -= item.tokens - done.tokens;
    job.computed += done.tokens;
    const auto blocks = std::min<std::size_t>(job.computed / kBlockTokens, job.keys.size());
    model(job.model).pool->set_keys(job.seq, std::span(job.keys).first(blocks));
  }
  std::rotate(d.runs.begin(), d.runs.begin() + 1, d.runs.end());
  --d.count;
}

void Scheduler::State::step_back(Model& m, Slot slot) {
  Job& job = jobs[slot];
  std::erase(m.running, slot);
  --running;
  job.at = Job::At::Free;
  job.planned = job.computed = job.sampling = 0;
  ++job.epoch;
  jobs.wait(slot);
}

void Scheduler::State::forget_sequences(Model& m) {
  if (!m.pool) return;
  while (!m.running.empty()) step_back(m, m.running.back());
  m.pool->drop_all();
}

void Scheduler::State::reject_all(Model& m, Decision& out) {
  for (Slot s = jobs.first_waiting(); s != kNoSlot;) {
    const Slot next = jobs[s].next;
    if (jobs[s].model == m.id) reject(s, Reason::ModelFailed, out);
    s = next;
  }
}

void Scheduler::State::reject(Slot slot, Reason reason, Decision& out) {
  out.actions.emplace_back(Reject{jobs[slot].id, reason});
  jobs.unwait(slot);
  jobs.remove(slot);
}

void Scheduler::State::release(Slot slot, std::span<const std::uint64_t> keys, EndCause cause,
                               Decision& out) {
  Job& job = jobs[slot];
  if (job.at == Job::At::Waiting) {
    jobs.unwait(slot);
    jobs.remove(slot);
    return;
  }
  Model& m = model(job.model);
  std::erase(m.running, slot);
  --running;
  job.at = Job::At::Free;
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
  jobs.remove(slot);
}

void Scheduler::State::request_loads(Decision& out) {
  if (!look_for_loads) return;
  look_for_loads = false;
  for (Slot s = jobs.first_waiting(); s != kNoSlot; s = jobs[s].next) {
    Model& m = model(jobs[s].model);
    if (m.at != Model::At::Absent) continue;
    m.at = Model::At::Loading;
    out.actions.emplace_back(LoadModel{m.device, m.id});
  }
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
    m.pool->drop(*oldest);
    out.actions.emplace_back(DropSequence{m.device, m.id, *oldest});
    const std::uint32_t freed = (m.pool->blocks_free() - free_before) * kBlockTokens;
    if (!useful) m.cache_budget = std::max(m.cache_budget - std::min(m.cache_budget, freed), least);
  }
}

void Scheduler::check() const {
  const State& s = *state_;
  s.jobs.check();
  std::uint32_t running = 0;
  for (const Model& m : s.models) {
    running += static_cast<std::uint32_t>(m.running.size());
    if (m.pool) m.pool->check();
    std::uint64_t arrival = 0;
    for (const Slot slot : m.running) {
      const Job& job = s.jobs[slot];
      LARES_ASSERT(job.at == Job::At::Running && job.model == m.id, "job {}", job.id.value);
      LARES_ASSERT(m.pool->state(job.seq) == KvPool::State::Live, "job {}", job.id.value);
      LARES_ASSERT(std::uint64_t{m.pool->held(job.seq)} * kBlockTokens >= job.planned,
                   "job {} holds {} blocks for {} tokens", job.id.value, m.pool->held(job.seq),
                   job.planned);
      LARES_ASSERT(job.computed <= job.planned && job.planned <= job.known(),
                   "job {}: {} computed, {} planned, {} known", job.id.value, job.computed,
                   job.planned, job.known());
      LARES_ASSERT(job.produced + job.sampling <= job.output_max, "job {}: {} + {} of {}",
                   job.id.value, job.produced, job.sampling, job.output_max);
      LARES_ASSERT(job.arrival > arrival, "job {} runs out of order", job.id.value);
      arrival = job.arrival;
    }
  }
  LARES_ASSERT(running == s.running, "{} run, counted {}", running, s.running);
  LARES_ASSERT(running + s.jobs.waiting() == s.jobs.size(), "{} run, {} wait of {}", running,
               s.jobs.waiting(), s.jobs.size());
  for (const Device& d : s.devices) {
    LARES_ASSERT(d.count <= s.options.runs_in_flight, "{} runs unanswered", d.count);
  }
}

}  // namespace lares::sched
