// Builds the next step of a device: every due decode first, then prompt chunks in the policy's
// order, of running jobs and of new ones, while tokens, time, cells and sequences last.
#include <algorithm>
#include <functional>

#include "sched/state.h"

namespace lares::sched {
namespace {

// A waiting job holds back for a running one that is computing a prefix they share, if it would
// save at least this many blocks; for less, waiting costs more than computing twice.
constexpr std::size_t kPrefixWorthBlocks = 4;

// Running jobs step back only for members who were served so much less, in nanoseconds of device
// time over weight: for less, computing them again costs more than it evens out.
constexpr std::int64_t kMuchMore = 1'000'000'000;

// Where prompts are read apart from decodes, both are in one step this often all the same, to see
// whether that still costs what it did.
constexpr std::uint32_t kTryMixing = 256;

std::size_t common_front(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  const std::size_t length = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length), b.begin()).first -
      a.begin());
}

// One step in the making.
class StepBuilder {
 public:
  StepBuilder(Scheduler::State& state, Device& device, Model& model, Decision& out)
      : s_(state),
        device_(device),
        m_(model),
        out_(out),
        first_(static_cast<std::uint32_t>(out.items.size())),
        tokens_left_(state.traits.whole_prompts
                         ? model.limits.batch_tokens
                         : std::min(state.options.step_tokens, model.limits.batch_tokens)),
        step_(state.plans) {
    if (device_.runs.size() <= device_.count) device_.runs.emplace_back();
    record_ = &device_.runs[device_.count];
    record_->items.clear();
    record_->shape = {.span = (m_.pool->blocks() - m_.pool->blocks_free()) * kBlockTokens};
  }

  // True if the step holds anything; it is then in the decision and on record.
  bool build() {
    running_at_start_ = running();
    start_ = device_.free_at(s_.now);
    if (const Slot suspect = find_suspect(); suspect != kNoSlot) {
      budget_ = s_.options.slice;
      add_chunk(suspect);
    } else if (s_.options.batching.prompts_apart) {
      serve_claims();
      if (record_->items.empty()) add_decodes();
    } else {
      make_way();
      set_budget();
      const Parts parts = choose_parts();
      if (parts != Parts::Prompts) add_decodes();
      if (parts != Parts::Decodes) serve_claims();
      if (record_->items.empty()) add_decodes();
    }
    if (record_->items.empty()) return false;
    record_->run = RunId{++s_.runs};
    record_->model = m_.id;
    record_->predicted = m_.cost.time(record_->shape);
    if (device_.count == 0) device_.began = s_.now;
    ++device_.count;
    m_.last_planned = step_;
    m_.steps_since_look = looked_ ? 0 : m_.steps_since_look + 1;
    m_.steps_since_prompt = record_->shape.prompt > 0 ? 0 : m_.steps_since_prompt + 1;
    const auto count = static_cast<std::uint32_t>(out_.items.size()) - first_;
    out_.actions.emplace_back(RunStep{device_.id, m_.id, record_->run, first_, count});
    if (!m_.limits.cut_anywhere) save_checkpoints();
    return true;
  }

 private:
  enum class Outcome : std::uint8_t { Served, PassedOver, NoRoom };
  enum class Parts : std::uint8_t { Both, Prompts, Decodes };

  void save_checkpoints() {
    for (const PlannedItem& item : record_->items) {
      const Job& job = s_.jobs[item.slot];
      if (job.checkpoint > 0 && job.checkpoint == job.planned)
        s_.save_checkpoint(m_, item.slot, out_);
    }
  }

  [[nodiscard]] std::uint32_t running() const {
    return static_cast<std::uint32_t>(m_.running.size());
  }

  // Alone, a job that may have killed its worker takes nobody with it and, if it was innocent, is
  // cleared by one step.
  Slot find_suspect() {
    for (const Slot slot : m_.running) {
      const Job& job = s_.jobs[slot];
      if (job.is_suspect() && job.need() > 0) return slot;
    }
    return kNoSlot;
  }

  // Loops by index: making room may end younger jobs, which stand behind.
  void add_decodes() {
    for (std::size_t i = 0; i < m_.running.size() && tokens_left_ > 0; ++i) {
      const Job& job = s_.jobs[m_.running[i]];
      if (job.need() == 1 && job.in_step != step_) add_item(m_.running[i], 1);
    }
  }

  // Where the two are better done one by one, they take turns; and prompts leave the streams the
  // time for their next step.
  Parts choose_parts() {
    if (!s_.traits.by_time || s_.classes_waiting == 0 || m_.cost.mixed_ps == 0) return Parts::Both;
    StepShape decodes{.span = record_->shape.span};
    for (const Slot slot : m_.running) {
      if (const Job& job = s_.jobs[slot]; job.need() == 1) decodes.add(job.planned, 1);
    }
    const std::uint32_t unit = std::min(s_.options.chunk_least, tokens_left_);
    const std::uint32_t prompt =
        std::max(unit, m_.cost.prompt_within(budget_, {.span = decodes.span}, 0, tokens_left_));
    if (decodes.tokens == 0 || !m_.cost.better_apart(decodes, prompt)) return Parts::Both;
    if (m_.steps_since_prompt == 0) return Parts::Decodes;
    const Duration step = m_.cost.time(decodes);
    const Duration both = m_.cost.time(decodes.with_prompt(0, unit));
    if (++m_.prompts_apart % kTryMixing == 0 && both <= s_.options.slice) return Parts::Both;
    if (slack_ != Duration::max()) budget_ = std::min(budget_, slack_ - step);
    return Parts::Prompts;
  }

  // --- Time --------------------------------------------------------------------------------------

  void set_budget() {
    if (!s_.traits.by_time) return;
    slack_ = s_.least_slack(device_.id, start_);
    budget_ =
        slack_ == Duration::max() ? s_.options.slice_alone : std::min(slack_, s_.options.slice);
  }

  // How much of the job's need may join the step.
  [[nodiscard]] std::uint32_t allowance(const Job& job, std::uint32_t from,
                                        std::uint32_t need) const {
    std::uint32_t most = std::min(need, tokens_left_);
    if (job.checkpoint > from) most = std::min(most, job.checkpoint - from);
    if (s_.traits.whole_prompts) {
      const bool first = record_->shape.prompt == 0;
      return need <= tokens_left_ || first || job.at == Job::At::Running ? most : 0;
    }
    if (!s_.traits.by_time) return most;
    const std::uint32_t unit = s_.options.chunk_least;
    std::uint32_t tokens = m_.cost.prompt_within(budget_, record_->shape, from, most);
    if (tokens > 0 && most - tokens < unit) return most;
    tokens -= tokens % unit;
    if (tokens == 0 && record_->shape.prompt == 0) tokens = std::min(most, unit);
    return m_.cost.fill_tile(record_->shape, from, tokens, most);
  }

  // --- Claims ------------------------------------------------------------------------------------

  void collect() {
    if (!collected_) s_.collect_claims(m_);
    collected_ = true;
  }

  // Serves claims in the policy's order. Serving one can only move its member's others back, so a
  // rank is renewed when its turn comes.
  void serve_claims() {
    // Where reading prompts costs something extra, at least three times as much is spent on them.
    const Duration pass(m_.cost.prompt_pass_ns);
    if (pass > Duration{})
      budget_ = std::max(budget_, m_.cost.time(record_->shape) + kPassBudget * pass);
    const Batching& batching = s_.options.batching;
    if (s_.traits.by_time && saves_prompts_up()) return;
    bool open =
        running() == 0 || batching.admit_every <= 1 || m_.steps_since_look >= batching.admit_every;
    looked_ = open;
    collect();
    // Once nobody may start, only running jobs are looked for: the queue may be long.
    std::uint32_t running_left = s_.claims_running;
    while (!s_.claims.empty() && tokens_left_ > 0 && (open || running_left > 0)) {
      std::ranges::pop_heap(s_.claims, std::greater<>{}, &Scheduler::State::Claim::rank);
      Scheduler::State::Claim claim = s_.claims.back();
      s_.claims.pop_back();
      const Job& job = s_.jobs[claim.slot];
      if (job.in_step == step_) {  // A prompt of one token.
        --running_left;
        continue;
      }
      const Rank renewed = s_.rank(claim.slot);
      if (renewed > claim.rank && !s_.claims.empty() && s_.claims.front().rank < renewed) {
        push_claim({renewed, claim.slot});
        continue;
      }
      if (job.at == Job::At::Running) {
        --running_left;
        if (!add_chunk(claim.slot)) return;
        if (s_.policy->is_due(renewed)) took_turn(job);
      } else if (open) {
        open = serve_waiting(claim);
      }
    }
  }

  // Where a step that reads prompts costs something extra, once, prompts are saved up so that it
  // stays below a tenth of the time; unless somebody presses or has nothing running, or there is
  // nothing else to do.
  bool saves_prompts_up() {
    if (m_.cost.prompt_pass_ns == 0 || record_->items.empty()) return false;
    const Duration step = m_.cost.time(record_->shape);
    if (step * m_.steps_since_prompt >= Duration(m_.cost.prompt_pass_ns) * 10) return false;
    collect();
    if (s_.claims.empty()) return true;
    const auto& [rank, slot] = s_.claims.front();
    return !s_.policy->presses(rank) && s_.accounts[s_.jobs[slot].member].running > 0;
  }

  // Of those that are due, each member and class has its turn.
  void took_turn(const Job& job) { s_.oldest_of(job.member, job.cls).turn = s_.now; }

  void push_claim(Scheduler::State::Claim claim) {
    s_.claims.push_back(claim);
    std::ranges::push_heap(s_.claims, std::greater<>{}, &Scheduler::State::Claim::rank);
  }

  // False if nothing more can start in this step.
  bool serve_waiting(const Scheduler::State::Claim& claim) {
    Job& job = s_.jobs[claim.slot];
    const Slot behind = job.next;
    const Moment moment{.running = running(),
                        .running_at_start = running_at_start_,
                        .tokens_left = tokens_left_,
                        .room = room_permille(),
                        .cls = job.cls.value};
    if (!s_.policy->may_start(moment)) return false;
    if (allowance(job, 0, job.known()) == 0) return false;
    if (waits_for_others(claim)) return true;
    if (s_.holds_too_much(m_, job)) return true;  // And so do all that stand behind it.
    const bool was_suspect = job.is_suspect();
    switch (running() < s_.options.running_max ? start(claim.slot) : Outcome::NoRoom) {
      case Outcome::NoRoom: return false;
      case Outcome::Served:
        if (s_.traits.by_time) took_turn(job);
        if (was_suspect) return false;
        break;
      case Outcome::PassedOver: break;
    }
    if (behind != kNoSlot && s_.may_start(behind)) push_claim({s_.rank(behind), behind});
    return true;
  }

  // Of this plan: asked once for each lane.
  std::uint32_t knee() {
    if (knee_ == 0) knee_ = m_.cost.knee(s_.options.running_max);
    return knee_;
  }

  // Its member is ahead of another of the class, whose jobs more company would slow down; and the
  // device is used well.
  [[nodiscard]] bool waits_for_others(const Scheduler::State::Claim& claim) {
    return s_.traits.by_time && !s_.policy->is_due(claim.rank) && running() >= knee() &&
           s_.is_ahead(claimant(s_.jobs[claim.slot]));
  }

  [[nodiscard]] std::uint32_t room_permille() const {
    const std::uint32_t room = m_.pool->blocks_free() + m_.pool->blocks_reclaimable();
    return static_cast<std::uint32_t>(std::uint64_t{room} * 1000 / m_.pool->blocks());
  }

  // --- Items -------------------------------------------------------------------------------------

  // False if the step has no time left for a prompt.
  bool add_chunk(Slot slot) {
    const Job& job = s_.jobs[slot];
    const std::uint32_t chunk = allowance(job, job.planned, job.need());
    if (chunk == 0) return false;
    if (add_item(slot, chunk)) return true;
    // Not all of it fits: as much as does.
    const std::uint32_t room =
        (m_.pool->held(job.seq) + m_.pool->blocks_free()) * kBlockTokens - job.planned;
    if (room > 0) add_item(slot, std::min(chunk, room));
    return true;
  }

  bool add_item(Slot slot, std::uint32_t tokens) {
    Job& job = s_.jobs[slot];
    if (!make_room(slot, blocks_for(std::uint64_t{job.planned} + tokens))) return false;
    record_->items.push_back({.slot = slot,
                              .job = job.id,
                              .member = job.member,
                              .task = job.task,
                              .task_id = job.task_id,
                              .cls = job.cls,
                              .epoch = job.epoch,
                              .from = job.planned,
                              .tokens = tokens});
    record_->shape.add(job.planned, tokens);
    job.planned += tokens;
    const bool samples = job.output_max > 0 && job.planned == job.known();
    record_->items.back().samples = samples;
    if (samples) ++job.sampling;
    ++job.unanswered;
    job.in_step = step_;
    job.served = s_.now;
    tokens_left_ -= tokens;
    out_.items.push_back(StepItem{job.id, job.seq, tokens});
    return true;
  }

  // --- Memory ------------------------------------------------------------------------------------

  // Grows the job's sequence, at the price of cached prefixes, then of younger jobs' progress.
  bool make_room(Slot slot, std::uint32_t blocks) {
    const Job& job = s_.jobs[slot];
    while (!m_.pool->grow(job.seq, blocks)) {
      if (const auto cached = m_.pool->least_recent_cached(std::nullopt)) {
        s_.evict(m_, *cached, out_);
        continue;
      }
      const Slot victim = youngest_outside_step();
      if (victim == kNoSlot || s_.jobs[victim].arrival <= job.arrival) return false;
      send_back(victim);
    }
    return true;
  }

  Slot youngest_outside_step() {
    for (auto it = m_.running.rbegin(); it != m_.running.rend(); ++it) {
      if (s_.jobs[*it].in_step != step_) return *it;
    }
    return kNoSlot;
  }

  void send_back(Slot victim) {
    const SeqId seq = s_.jobs[victim].seq;
    s_.save_job(m_, victim, out_);
    s_.step_back(m_, victim);
    collected_ = false;
    m_.pool->drop(seq);
    out_.actions.emplace_back(DropSequence{device_.id, m_.id, seq});
  }

  // If the first claim is one that takes room and has none, running jobs of members who were served
  // more step back for it, the most served first; unless all of them together would not do.
  void make_way() {
    if (!s_.traits.by_time) return;
    collect();
    if (s_.claims.empty()) return;
    const auto [rank, slot] = s_.claims.front();
    const Job& job = s_.jobs[slot];
    if (job.at == Job::At::Running || !s_.policy->presses(rank)) return;
    const bool due = s_.policy->is_due(rank);
    const auto has_room = [&](std::uint32_t blocks, std::uint32_t jobs) {
      return s_.needed_blocks(job) <= blocks && running() - jobs < s_.options.running_max &&
             (jobs > 0 || m_.pool->has_free_sequence() || m_.pool->sequences_cached() > 0);
    };
    std::uint32_t blocks = m_.pool->blocks_free() + m_.pool->blocks_reclaimable();
    if (has_room(blocks, 0)) return;
    std::uint32_t jobs = 0;
    for (const Slot other : m_.running) {
      if (!gives_way(s_.jobs[other], job, due)) continue;
      blocks += m_.pool->held(s_.jobs[other].seq);
      ++jobs;
    }
    if (!has_room(blocks, jobs)) return;
    while (!has_room(m_.pool->blocks_free() + m_.pool->blocks_reclaimable(), 0)) {
      const Slot victim = most_served(job, due);
      if (victim == kNoSlot) return;
      send_back(victim);
    }
  }

  [[nodiscard]] std::int64_t service(const Job& job) const {
    return s_.accounts[job.member].service();
  }

  // Those of members served much more; to one that is due, also what has run for as long as that
  // one may wait: else, under overload, all that starts would be sent back by the next that is due.
  [[nodiscard]] bool gives_way(const Job& other, const Job& job, bool due) const {
    if (other.member == job.member && other.cls == job.cls) return false;
    if (due && s_.now - other.started > s_.options.classes[job.cls.value].longest_wait) return true;
    return other.member != job.member && service(other) > service(job) + kMuchMore;
  }

  Slot most_served(const Job& job, bool due) {
    Slot best = kNoSlot;
    for (const Slot slot : m_.running) {
      const Job& other = s_.jobs[slot];
      if (!gives_way(other, job, due)) continue;
      if (best == kNoSlot || service(other) >= service(s_.jobs[best])) best = slot;
    }
    return best;
  }

  // --- Starting ----------------------------------------------------------------------------------

  Outcome start(Slot slot) {
    Job& job = s_.jobs[slot];
    std::span<const std::uint64_t> keys = job.keys;
    keys = keys.first(std::min<std::size_t>(keys.size(), (job.known() - 1) / kBlockTokens));
    KvPool::Match match;
    if (m_.limits.cut_anywhere) match = m_.pool->match(keys);
    if (m_.limits.cut_anywhere && prefix_is_coming(keys, match.blocks)) return Outcome::PassedOver;
    Scheduler::State::Back back = s_.find_back(m_, job, keys, match.blocks);
    if (back.end > 0) match.blocks = back.from / kBlockTokens;
    if (match.blocks == 0) match = {};
    if (!s_.fits(m_, job, match)) return Outcome::NoRoom;
    if (!m_.pool->has_free_sequence() && !free_a_sequence(match)) return Outcome::NoRoom;
    // What the state stands behind may have gone to make room.
    if (back.from > match.blocks * kBlockTokens) back.end = 0;

    if (match.blocks > 0 && m_.pool->state(match.seq) == KvPool::State::Cached) {
      m_.cache_budget = std::min(2 * std::max(m_.cache_budget, 1U), s_.options.cache_tokens);
    }
    const SeqId seq = m_.pool->open(match.seq, match.blocks);
    const std::uint32_t shared = match.blocks * kBlockTokens;
    out_.actions.emplace_back(OpenSequence{device_.id, m_.id, job.id, seq, match.seq, shared});
    const bool restores = back.end > 0 && s_.take_cells(m_, seq, back, out_);
    if (restores) {
      out_.actions.emplace_back(
          RestoreState{device_.id, m_.id, job.id, seq, back.state, back.end, back.own});
    }
    s_.begin(m_, slot, seq, restores ? back.end : shared);
    s_.forget_state(job, out_);
    s_.set_checkpoint(m_, job, back.apart);
    // A suspect that finds company in this step has the next one to itself.
    if (!job.is_suspect() || record_->items.empty()) add_chunk(slot);
    return Outcome::Served;
  }

  bool prefix_is_coming(std::span<const std::uint64_t> keys, std::size_t have) {
    return std::ranges::any_of(m_.running, [&](Slot slot) {
      const Job& other = s_.jobs[slot];
      const std::size_t common = common_front(keys, other.keys);
      return common >= have + kPrefixWorthBlocks && other.computed / kBlockTokens < common;
    });
  }

  bool free_a_sequence(KvPool::Match& match) {
    auto cached =
        m_.pool->least_recent_cached(match.blocks > 0 ? std::optional(match.seq) : std::nullopt);
    if (!cached && match.blocks > 0 && m_.pool->state(match.seq) == KvPool::State::Cached) {
      cached = match.seq;
      match = {};
    }
    if (cached) s_.evict(m_, *cached, out_);
    return cached.has_value();
  }

  Scheduler::State& s_;
  Device& device_;
  Model& m_;
  Decision& out_;
  Unanswered* record_ = nullptr;
  std::uint32_t first_;
  std::uint32_t tokens_left_;
  std::uint64_t step_;
  std::uint32_t running_at_start_ = 0;
  bool looked_ = false;
  bool collected_ = false;  // The claims are of now, as far as this model goes.
  Instant start_{};
  std::uint32_t knee_ = 0;
  Duration slack_ = Duration::max();  // Of the live streams.
  Duration budget_{};
};

}  // namespace

void Scheduler::State::plan(Device& device, Decision& out) {
  while (device.count < options.runs_in_flight) {
    if (traits.by_time && device.count > 0) {
      const Instant near_end = device.free_at(now) - options.ahead_max;
      if (now < near_end) {
        out.wake_at = std::min(out.wake_at, near_end);
        return;
      }
    }
    ++plans;
    if (traits.by_time) find_oldest();
    order_models(device);
    const bool built = std::ranges::any_of(order, [&](ModelId id) {
      Model& m = models[id.value];
      return m.limits.graphs ? plan_graphs(device, m, out)
                             : StepBuilder(*this, device, m, out).build();
    });
    if (!built) return;
  }
}

}  // namespace lares::sched
