#include "sched/scheduler.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/assert.h"
#include "sched/state.h"

namespace lares::sched {
namespace {

Result<> in_range(std::string_view name, std::uint64_t value, std::uint64_t low,
                  std::uint64_t high) {
  if (value >= low && value <= high) return {};
  return fail(Code::Invalid,
              fmt::format("scheduler.{} is {}; it must be {} to {}", name, value, low, high));
}

Result<> duration_in_range(std::string_view name, Duration value) {
  if (value >= std::chrono::milliseconds(1) && value <= std::chrono::seconds(10)) return {};
  return fail(Code::Invalid, fmt::format("scheduler.{} is {} us; it must be 1000 to 10000000", name,
                                         value / std::chrono::microseconds(1)));
}

Result<> check_classes(const std::vector<ClassSpec>& classes) {
  TRY_VOID(in_range("classes", classes.size(), 0, 64));
  std::uint64_t floors = 0, guarantees = 0;
  for (const ClassSpec& cls : classes) {
    floors += cls.floor;
    guarantees += cls.guaranteed;
  }
  for (const auto& [name, sum] :
       {std::pair("floor", floors), std::pair("guaranteed", guarantees)}) {
    if (sum <= 1000) continue;
    return fail(Code::Invalid,
                fmt::format("the classes' {} shares add up to {}.{} %; they must leave each other "
                            "room: 100 % at most",
                            name, sum / 10, sum % 10));
  }
  return {};
}

// Measured with a 0.1B model on two cores (BENCHMARKS.md): with up to 2,500 cached tokens, reading
// a prompt of 200 took a quarter to a third longer than with none; within this budget, about a
// tenth.
constexpr std::uint32_t kCacheFirst = 2048;

std::vector<ClassSpec> one_class() {
  std::vector<ClassSpec> classes(1);
  classes[0].name = "default";
  return classes;
}

}  // namespace

Scheduler::State::State(Options o, std::unique_ptr<Policy> p)
    : options(std::move(o)),
      policy(std::move(p)),
      traits(policy->traits()),
      jobs(options.jobs_max, traits.fair_tasks),
      accounts(static_cast<std::uint32_t>(std::max<std::size_t>(options.classes.size(), 1)),
               traits.by_time ? options.lead_max.count() : 0) {
  if (options.classes.empty()) options.classes = one_class();
}

Result<Scheduler> Scheduler::create(const Options& options) {
  TRY_VOID(in_range("jobs", options.jobs_max, 1, 1U << 20U));
  TRY_VOID(in_range("sequences", options.running_max, 1, 256));
  TRY_VOID(in_range("step_tokens", options.step_tokens, 1, 65536));
  TRY_VOID(in_range("runs_in_flight", options.runs_in_flight, 1, 2));
  TRY_VOID(in_range("output_expected", options.output_expected, 0, 65536));
  TRY_VOID(in_range("member_pool", options.member_pool, 1, 1000));
  TRY_VOID(in_range("losses_max", options.losses_max, 1, 100));
  TRY_VOID(in_range("chunk_least", options.chunk_least, 1, 256));
  TRY_VOID(duration_in_range("slice", options.slice));
  TRY_VOID(duration_in_range("slice_alone", options.slice_alone));
  TRY_VOID(check_classes(options.classes));
  auto policy = TRY(make_policy(options.policy, options.tuning));
  return Scheduler(std::make_unique<State>(options, std::move(policy)));
}

Scheduler::Scheduler(std::unique_ptr<State> state) : state_(std::move(state)) {}
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;
Scheduler::~Scheduler() = default;

void Scheduler::step(Instant now, std::span<const Event> events, Decision& out) {
  LARES_ASSERT(now >= state_->now, "time went back by {} ns", (state_->now - now).count());
  state_->now = now;
  state_->accounts.advance(now);
  out.clear();
  for (const Event& event : events) {
    std::visit([&](const auto& e) { state_->on(e, out); }, event);
  }
  state_->settle_residency(out);
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

const CostTable* Scheduler::cost(ModelId model) const {
  if (model.value >= state_->models.size()) return nullptr;
  const Model& m = state_->models[model.value];
  return m.was_ready ? &m.cost : nullptr;
}

std::vector<Scheduler::MemberUse> Scheduler::members() const {
  std::vector<MemberUse> uses;
  for (Accounts::Index i = 0; i < state_->accounts.size(); ++i) {
    const Accounts::Member& m = state_->accounts[i];
    uses.push_back({m.id, m.counter, m.outstanding, m.waiting, m.running, m.lifts});
  }
  return uses;
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
  m.ready_at = m.used_at = now;
  look_at_models = true;
  m.pool.reset();
  m.pass.running = false;
  if (!event.limits.graphs) m.pool.emplace(event.limits.pool_tokens, event.limits.sequences);
  m.cache_budget = std::min(kCacheFirst, options.cache_tokens);
  m.cost = event.cost;
  m.was_ready = true;
  constexpr std::uint32_t kPrompt = 128, kDecodes = 4;
  m.prompt_ns = m.cost.time({.tokens = kPrompt, .prompt = kPrompt}).count() / kPrompt;
  m.output_ns = m.cost.time({.tokens = kDecodes}).count() / kDecodes;
  if (m.limits.graphs) m.prompt_ns = m.graph_costs.usual().count();
  for (const Slot s : jobs.all_waiting()) {
    if (jobs[s].model == event.model && !could_fit(jobs[s], m)) reject(s, Reason::NeverFits, out);
  }
}

void Scheduler::State::on(const ModelFailed& event, Decision& out) {
  Model& m = model(event.model);
  forget_sequences(m);
  m.at = Model::At::Failed;
  look_at_models = true;
  for (const Slot s : jobs.all_waiting()) {
    if (jobs[s].model == m.id) reject(s, Reason::ModelFailed, out);
  }
}

void Scheduler::State::on(const ModelForgotten& event, Decision& /*out*/) {
  Model& m = model(event.model);
  forget_sequences(m);
  m.at = Model::At::Absent;
  look_at_models = true;
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
      jobs.changed(item.slot);
    }
  }
  d.count = 0;
  for (Model& m : models) {
    if (m.device != event.device || m.at == Model::At::Failed) continue;
    forget_sequences(m);
    // It was used a moment ago, and likely will be.
    m.wanted |= m.at == Model::At::Ready || m.at == Model::At::Loading;
    m.at = Model::At::Absent;
  }
  look_at_models = true;
  for (const Slot s : jobs.all_waiting()) {
    if (jobs[s].losses >= options.losses_max) reject(s, Reason::FailedRepeatedly, out);
  }
}

void Scheduler::State::forget_sequences(Model& m) {
  while (!m.running.empty()) step_back(m, m.running.back());
  if (!m.pool) return;
  m.pool->drop_all();
  device(m.device).host.erase(m.id);
}

void Scheduler::State::check_model(const Model& m) const {
  if (m.limits.graphs) return check_graphs(m);
  if (m.pool) m.pool->check();
  std::uint64_t arrival = 0;
  for (const Slot slot : m.running) {
    const Job& job = jobs[slot];
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

void Scheduler::State::check_accounts() const {
  accounts.check();
  std::vector<std::uint32_t> waiting(accounts.size()), runs_of(accounts.size());
  std::vector<std::int64_t> expected(accounts.size());
  for (const Slot slot : jobs.all_waiting()) ++waiting[jobs[slot].member];
  for (const Model& m : models) {
    for (const Slot slot : m.running) {
      ++runs_of[jobs[slot].member];
      expected[jobs[slot].member] += jobs[slot].expected;
    }
  }
  for (Accounts::Index i = 0; i < accounts.size(); ++i) {
    const Accounts::Member& member = accounts[i];
    LARES_ASSERT(member.waiting == waiting[i] && member.running == runs_of[i],
                 "member {}: {} wait, {} run; counted {}, {}", member.id.value, waiting[i],
                 runs_of[i], member.waiting, member.running);
    LARES_ASSERT(member.outstanding == expected[i], "member {} expects {}, its jobs {}",
                 member.id.value, member.outstanding, expected[i]);
  }
}

void Scheduler::check() const {
  const State& s = *state_;
  s.jobs.check();
  s.check_accounts();
  s.check_residency();
  std::uint32_t running = 0;
  for (const Model& m : s.models) {
    running += static_cast<std::uint32_t>(m.running.size());
    s.check_model(m);
  }
  LARES_ASSERT(running == s.running, "{} run, counted {}", running, s.running);
  LARES_ASSERT(running + s.jobs.waiting() == s.jobs.size(), "{} run, {} wait of {}", running,
               s.jobs.waiting(), s.jobs.size());
  for (const Device& d : s.devices) {
    d.host.check();
    LARES_ASSERT(d.count <= s.options.runs_in_flight, "{} runs unanswered", d.count);
  }
}

}  // namespace lares::sched
