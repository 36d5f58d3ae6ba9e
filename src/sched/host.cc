// What of sequences is saved to the host's memory, and what is put back.
//
// Copying is weighed against computing again, with what both took of late. What a job had computed
// when it stepped back is needed for certain; of the prefixes that leave the pool's cache, one in
// kCachedOdds is assumed to be asked for again.
#include <algorithm>

#include "sched/state.h"

namespace lares::sched {
namespace {

constexpr std::int64_t kRecent = 8;  // A new speed counts an eighth.
constexpr std::int64_t kCachedOdds = 4;
constexpr std::uint32_t kLeastBlocks = 4;  // Less is computed again as fast as it is looked up.

Duration compute_time(const Model& m, std::uint32_t from, std::uint32_t tokens) {
  Duration time{};
  while (tokens > 0) {
    const std::uint32_t chunk = std::min(tokens, m.limits.batch_tokens);
    time += m.cost.time({.tokens = chunk, .prompt = chunk, .attended = attended_by(from, chunk)});
    from += chunk;
    tokens -= chunk;
  }
  return time;
}

}  // namespace

void Scheduler::State::on(const HostMemory& event, Decision& out) {
  Device& d = device(event.device);
  d.host.budget = event.budget;
  gone.clear();
  d.host.make_room({}, gone);
  for (const HostTier::State& state : gone) {
    out.actions.emplace_back(ForgetState{d.id, state.model, state.id});
  }
}

void Scheduler::State::on(const StateSaved& event, Decision& /*out*/) {
  Device& d = device(event.device);
  d.host.set_bytes(event.state, event.bytes);
  const std::int64_t bytes = std::max<std::int64_t>(event.bytes.count, 1);
  const std::int64_t ps = std::min<std::int64_t>(event.took.count(), 1'000'000'000) * 1000 / bytes;
  d.copy_ps += (ps - d.copy_ps) / kRecent;
}

void Scheduler::State::on(const StateLost& event, Decision& /*out*/) {
  device(event.device).host.erase(event.state);
}

void Scheduler::State::on(const RestoreFailed& event, Decision& out) {
  const Slot slot = jobs.find(event.job);
  if (slot == kNoSlot || jobs[slot].at != Job::At::Running) return;
  Model& m = model(jobs[slot].model);
  const SeqId seq = jobs[slot].seq;
  step_back(m, slot);
  m.pool->drop(seq);
  out.actions.emplace_back(DropSequence{m.device, m.id, seq});
}

// Saves the tokens [state.from, state.end) of a sequence if that is worth it and there is room; 0
// if not. `odds`: it is put back one time in so many.
StateId Scheduler::State::save(Model& m, SeqId seq, HostTier::State state, std::int64_t odds,
                               Decision& out) {
  Device& d = device(m.device);
  if (m.limits.kv_per_token.count == 0 || d.host.budget.count == 0) return {};
  if (state.end < state.from + kLeastBlocks * kBlockTokens) return {};
  const std::uint32_t tokens = state.end - state.from;
  state.bytes = Bytes{m.limits.kv_per_token.count * tokens};
  const Duration copying(state.bytes.count / 1000 * d.copy_ps);
  if (copying * (odds + 1) >= compute_time(m, state.from, tokens)) return {};
  gone.clear();
  if (!d.host.make_room(state.bytes, gone)) return {};
  for (const HostTier::State& other : gone) {
    out.actions.emplace_back(ForgetState{d.id, other.model, other.id});
  }
  state.model = m.id;
  const std::uint32_t from = state.from;
  const StateId id = d.host.add(std::move(state));
  out.actions.emplace_back(SaveState{d.id, m.id, seq, id, from, tokens});
  return id;
}

// Of a running job that is about to step back. What is planned is computed when the device comes to
// save it: it does things in order.
void Scheduler::State::save_job(Model& m, Slot slot, Decision& out) {
  Job& job = jobs[slot];
  forget_state(job, out);
  const std::uint32_t front = m.limits.cut_anywhere ? m.pool->shared_front(job.seq) : 0;
  const std::uint32_t from = std::min(front * kBlockTokens, job.planned);
  job.state = save(m, job.seq, {.from = from, .end = job.planned, .owned = true}, 1, out);
}

// Of memory that cannot be cut only all can be put back, so it is saved while a prompt is read:
// first where the prompt parts from another that is known, such as behind a system prompt, then at
// its last whole block, where the next turn of a conversation goes on.
void Scheduler::State::set_checkpoint(Model& m, Job& job, std::uint32_t apart) {
  job.checkpoint = 0;
  if (m.limits.cut_anywhere || m.limits.graphs || device(m.device).host.budget.count == 0) return;
  const auto last = static_cast<std::uint32_t>(
      std::min<std::size_t>(job.keys.size(), (job.prompt - 1) / kBlockTokens));
  for (const std::uint32_t blocks : {std::min(apart, last), last}) {
    if (blocks < job.planned / kBlockTokens + kLeastBlocks) continue;
    job.checkpoint = blocks * kBlockTokens;
    return;
  }
}

// What is read up to the checkpoint, by the step just planned.
void Scheduler::State::save_checkpoint(Model& m, Slot slot, Decision& out) {
  Job& job = jobs[slot];
  const auto keys = std::span(job.keys).first(job.checkpoint / kBlockTokens);
  if (!device(m.device).host.holds(m.id, keys, 0, true)) {
    save(m, job.seq, {.from = 0, .end = job.checkpoint, .keys = {keys.begin(), keys.end()}},
         kCachedOdds, out);
  }
  set_checkpoint(m, job, 0);
}

// A cached sequence leaves the pool.
void Scheduler::State::evict(Model& m, SeqId cached, Decision& out) {
  const std::span<const std::uint64_t> keys = m.pool->keys(cached);
  const auto end = static_cast<std::uint32_t>(keys.size()) * kBlockTokens;
  const std::uint32_t from = std::min(m.pool->shared_front(cached) * kBlockTokens, end);
  if (end > from && !device(m.device).host.holds(m.id, keys, from, false)) {
    save(m, cached, {.from = from, .end = end, .keys = {keys.begin(), keys.end()}}, kCachedOdds,
         out);
  }
  m.pool->drop(cached);
  out.actions.emplace_back(DropSequence{m.device, m.id, cached});
}

// For a job that is about to start and finds the first `have` blocks of its keys in the pool.
Scheduler::State::Back Scheduler::State::find_back(Model& m, Job& job,
                                                   std::span<const std::uint64_t> keys,
                                                   std::uint32_t have) {
  HostTier& host = device(m.device).host;
  if (host.size() == 0) return {};
  if (const HostTier::State* own = host.find(job.state); own != nullptr) {
    if (own->from <= have * kBlockTokens && own->end > have * kBlockTokens)
      return {own->id, own->from, own->end, true};
  }
  const HostTier::Match match = host.match(m.id, keys, have, kLeastBlocks, !m.limits.cut_anywhere);
  if (match.blocks == 0) return {.apart = match.apart};
  return {match.state, host.find(match.state)->from, match.blocks * kBlockTokens, false,
          match.apart};
}

// For what is put back into the sequence, at the price of cached prefixes. False if there are not
// enough, or if the state was given up meanwhile, for what left the pool.
bool Scheduler::State::take_cells(Model& m, SeqId seq, const Back& back, Decision& out) {
  const HostTier::State* state = device(m.device).host.find(back.state);
  if (state == nullptr) return false;
  // The device needs cells for all of a state, for a moment.
  const std::uint32_t meanwhile = blocks_for(state->end - back.end);
  const std::uint32_t more = blocks_for(back.end) - m.pool->held(seq) + meanwhile;
  while (m.pool->blocks_free() < more) {
    const auto cached = m.pool->least_recent_cached(std::nullopt);
    if (!cached) return false;
    m.pool->drop(*cached);
    out.actions.emplace_back(DropSequence{m.device, m.id, *cached});
  }
  return m.pool->grow(seq, blocks_for(back.end));
}

void Scheduler::State::forget_state(Job& job, Decision& out) {
  if (job.state == StateId{}) return;
  const Model& m = model(job.model);
  HostTier& host = device(m.device).host;
  if (host.find(job.state) != nullptr) {
    host.erase(job.state);
    out.actions.emplace_back(ForgetState{m.device, m.id, job.state});
  }
  job.state = {};
}

}  // namespace lares::sched
