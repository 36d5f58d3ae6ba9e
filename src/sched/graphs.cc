// Graphs: jobs of so many passes over a network, as pictures are. A pass is done in slices, so that
// others run between its nodes; who else wants it joins when it begins, never in the middle. They
// are claims like prompts, in the policy's order, and charged device time like everything else.
#include <algorithm>
#include <functional>

#include "core/assert.h"
#include "sched/state.h"

namespace lares::sched {
namespace {

// A live stream that is nearly late gives a slice no less than this: it runs next in any case, and
// a slice has its price.
constexpr Duration kSliceLeast = std::chrono::milliseconds(2);

}  // namespace

bool Scheduler::State::plan_graphs(Device& device, Model& m, Decision& out) {
  // What a slice came to decides about the next one.
  const auto sent = std::span(device.runs).first(device.count);
  if (std::ranges::any_of(sent, [&](const Unanswered& run) { return run.model == m.id; }))
    return false;
  if (!m.pass.running && !begin_pass(device, m, out)) return false;
  if (device.runs.size() <= device.count) device.runs.emplace_back();
  Unanswered& record = device.runs[device.count];
  record.items.clear();
  record.shape = {};
  record.pass = m.pass.number;
  const auto first = static_cast<std::uint32_t>(out.items.size());
  for (const Slot slot : m.pass.slots) {
    Job& job = jobs[slot];
    record.items.push_back({.slot = slot,
                            .job = job.id,
                            .member = job.member,
                            .task = job.task,
                            .task_id = job.task_id,
                            .cls = job.cls,
                            .epoch = job.epoch,
                            .from = job.computed,
                            .tokens = 1});
    ++job.unanswered;
    job.in_step = plans;
    job.served = now;
    out.items.push_back(StepItem{job.id, job.seq, 1});
  }
  const Duration slice = graph_slice(device);
  const Duration left = m.graph_costs.predict(m.pass.key, m.pass.rows) - m.pass.spent;
  record.run = RunId{++runs};
  record.model = m.id;
  record.predicted = std::clamp(left, std::min(kSliceLeast, slice), slice);
  if (device.count == 0) device.began = now;
  ++device.count;
  m.last_planned = plans;
  const auto count = static_cast<std::uint32_t>(out.items.size()) - first;
  out.actions.emplace_back(RunStep{device.id, m.id, record.run, first, count, slice});
  return true;
}

// The first by the policy's order leads; what may share a pass with it joins, in the same order.
bool Scheduler::State::begin_pass(const Device& device, Model& m, Decision& out) {
  collect_claims(m);
  Pass& pass = m.pass;
  pass.slots.clear();
  const std::uint32_t begun_most = std::min(options.running_max, m.limits.sequences);
  bool alone = false;
  while (!claims.empty() && pass.slots.size() < m.limits.batch_tokens && !alone) {
    std::ranges::pop_heap(claims, std::greater<>{}, &Claim::rank);
    const Slot slot = claims.back().slot;
    claims.pop_back();
    const Job& job = jobs[slot];
    const Slot behind = job.at == Job::At::Waiting ? job.next : kNoSlot;
    const bool leads = pass.slots.empty();
    const bool suspect = job.is_suspect();
    const bool room = job.at == Job::At::Running || m.running.size() < begun_most;
    if (room && (leads || (job.batch_key == pass.key && !suspect))) {
      pass.key = job.batch_key;
      alone = suspect || job.batch_key == 0;
      join_pass(device, m, slot, out);
    }
    if (behind != kNoSlot && may_start(behind)) {
      claims.push_back({rank(behind), behind});
      std::ranges::push_heap(claims, std::greater<>{}, &Claim::rank);
    }
  }
  if (pass.slots.empty()) return false;
  ++pass.number;
  pass.running = true;
  pass.spent = {};
  pass.rows = static_cast<std::uint32_t>(pass.slots.size());
  return true;
}

void Scheduler::State::join_pass(const Device& device, Model& m, Slot slot, Decision& out) {
  if (traits.by_time) oldest_of(jobs[slot].member, jobs[slot].cls).turn = now;
  if (jobs[slot].at == Job::At::Waiting) {
    begin(m, slot, SeqId{}, 0);
    out.actions.emplace_back(OpenSequence{device.id, m.id, jobs[slot].id, SeqId{}, SeqId{}, 0});
  }
  m.pass.slots.push_back(slot);
}

// Live streams bound it, as they bound a step that reads prompts.
Duration Scheduler::State::graph_slice(const Device& device) const {
  if (!traits.by_time) return options.slice;
  const Duration slack = least_slack(device.id, device.free_at(now));
  if (slack == Duration::max()) return options.slice_alone;
  return std::clamp(slack, std::min(kSliceLeast, options.slice), options.slice);
}

void Scheduler::State::graphs_stepped(Model& m, const Unanswered& run, const Stepped& event,
                                      Decision& out) {
  auto share_left = static_cast<std::int64_t>(run.items.size());
  Duration left = event.took;
  for (std::size_t i = 0; i < run.items.size(); ++i) {
    const PlannedItem& item = run.items[i];
    const Duration share = left / share_left--;
    left -= share;
    accounts.charge(item.member, item.task, item.task_id,
                    traits.currency == Currency::Tokens ? event.items[i].tokens : share.count());
    accounts.class_served(item.cls.value, share);
    out.charges.push_back(Charge{item.job, accounts[item.member].id, share});
    Job& job = jobs[item.slot];
    if (job.at == Job::At::Free || job.id != item.job) continue;
    LARES_ASSERT(event.items[i].tokens <= 1, "{} passes in one", event.items[i].tokens);
    --job.unanswered;
    job.losses = 0;
    jobs.changed(item.slot);
    if (job.epoch != item.epoch) continue;
    job.computed += event.items[i].tokens;
    job.planned = job.computed;
    expect(job, m);
  }
  if (run.pass != m.pass.number || !m.pass.running) return;
  m.pass.spent += event.took;
  if (event.pass_done && run.items.size() == m.pass.rows) {
    m.graph_costs.observe(m.pass.key, m.pass.rows, m.pass.spent);
    m.prompt_ns = m.graph_costs.usual().count();
  }
  if (event.pass_done) m.pass.running = false;
}

// The pass goes on for the others; if there are none, it is over.
void Scheduler::State::leave_pass(Model& m, Slot slot) {
  if (!m.pass.running) return;
  std::erase(m.pass.slots, slot);
  if (m.pass.slots.empty()) m.pass.running = false;
}

void Scheduler::State::check_graphs(const Model& m) const {
  std::uint64_t arrival = 0;
  for (const Slot slot : m.running) {
    const Job& job = jobs[slot];
    LARES_ASSERT(job.at == Job::At::Running && job.model == m.id, "job {}", job.id.value);
    LARES_ASSERT(job.computed == job.planned && job.computed <= job.prompt,
                 "job {}: {} passes done, {} planned, of {}", job.id.value, job.computed,
                 job.planned, job.prompt);
    LARES_ASSERT(job.arrival > arrival, "job {} runs out of order", job.id.value);
    arrival = job.arrival;
  }
  if (!m.pass.running) return;
  LARES_ASSERT(!m.pass.slots.empty(), "a pass of model {} for nobody", m.id.value);
  for (const Slot slot : m.pass.slots) {
    LARES_ASSERT(std::ranges::find(m.running, slot) != m.running.end(),
                 "job {} is in a pass and does not run", jobs[slot].id.value);
  }
}

}  // namespace lares::sched
