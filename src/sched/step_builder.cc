// Builds the next step of a device: every due decode first, then prompt chunks of running jobs,
// then new jobs in the policy's order, while tokens, cells and sequences last.
#include <algorithm>

#include "core/assert.h"
#include "sched/state.h"

namespace lares::sched {
namespace {

// A waiting job holds back for a running one that is computing a prefix they share, if it would
// save at least this many blocks; for less, waiting costs more than computing twice.
constexpr std::size_t kPrefixWorthBlocks = 4;

// After so many runs in a row that died with their worker, a job runs alone.
constexpr std::uint32_t kLossesAlone = 2;

std::uint32_t blocks_for(std::uint64_t tokens) {
  return static_cast<std::uint32_t>((tokens + kBlockTokens - 1) / kBlockTokens);
}

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
        tokens_left_(std::min(state.options.step_tokens, model.limits.batch_tokens)) {
    if (device_.runs.size() <= device_.count) device_.runs.emplace_back();
    record_ = &device_.runs[device_.count];
    record_->items.clear();
    step_ = ++s_.plans;
  }

  // True if the step holds anything; it is then in the decision and on record.
  bool build() {
    const std::uint32_t running_at_start = running();
    if (const Slot suspect = find_suspect(); suspect != kNoSlot) {
      add_chunk(suspect);
    } else {
      add_decodes();
      add_chunks();
      start_jobs(running_at_start);
    }
    if (record_->items.empty()) return false;
    record_->run = RunId{++s_.runs};
    record_->model = m_.id;
    ++device_.count;
    m_.last_planned = step_;
    const auto count = static_cast<std::uint32_t>(out_.items.size()) - first_;
    out_.actions.emplace_back(RunStep{device_.id, m_.id, record_->run, first_, count});
    return true;
  }

 private:
  [[nodiscard]] std::uint32_t running() const {
    return static_cast<std::uint32_t>(m_.running.size());
  }

  // A job whose last runs all died with their worker runs alone, so that it takes nobody with it
  // and, if it was innocent, is cleared by one step.
  [[nodiscard]] bool is_suspect(const Job& job) const { return job.losses >= kLossesAlone; }

  Slot find_suspect() {
    for (const Slot slot : m_.running) {
      const Job& job = s_.jobs[slot];
      if (is_suspect(job) && job.need() > 0) return slot;
    }
    return kNoSlot;
  }

  // Loops by index: making room may end younger jobs, which stand behind.
  void add_decodes() {
    for (std::size_t i = 0; i < m_.running.size() && tokens_left_ > 0; ++i) {
      if (s_.jobs[m_.running[i]].need() == 1) add_item(m_.running[i], 1);
    }
  }

  void add_chunks() {
    for (std::size_t i = 0; i < m_.running.size() && tokens_left_ > 0; ++i) {
      if (s_.jobs[m_.running[i]].need() > 1) add_chunk(m_.running[i]);
    }
  }

  void add_chunk(Slot slot) {
    const std::uint32_t chunk = std::min(s_.jobs[slot].need(), tokens_left_);
    if (chunk == 0 || add_item(slot, chunk)) return;
    // Not all of it fits: as much as does.
    const Job& job = s_.jobs[slot];
    const std::uint32_t room =
        (m_.pool->held(job.seq) + m_.pool->blocks_free()) * kBlockTokens - job.planned;
    if (room > 0) add_item(slot, std::min(chunk, room));
  }

  bool add_item(Slot slot, std::uint32_t tokens) {
    Job& job = s_.jobs[slot];
    if (!make_room(slot, blocks_for(std::uint64_t{job.planned} + tokens))) return false;
    job.planned += tokens;
    const bool samples = job.planned == job.known();
    if (samples) ++job.sampling;
    ++job.unanswered;
    job.in_step = step_;
    tokens_left_ -= tokens;
    out_.items.push_back(StepItem{job.id, job.seq, tokens});
    record_->items.push_back(PlannedItem{slot, job.id, job.epoch, tokens, samples});
    return true;
  }

  // Grows the job's sequence, at the price of cached prefixes, then of younger jobs' progress.
  bool make_room(Slot slot, std::uint32_t blocks) {
    const Job& job = s_.jobs[slot];
    while (!m_.pool->grow(job.seq, blocks)) {
      if (const auto cached = m_.pool->least_recent_cached(std::nullopt)) {
        drop(*cached);
        continue;
      }
      const Slot victim = youngest_outside_step();
      if (victim == kNoSlot || s_.jobs[victim].arrival <= job.arrival) return false;
      const SeqId seq = s_.jobs[victim].seq;
      s_.step_back(m_, victim);
      drop(seq);
    }
    return true;
  }

  Slot youngest_outside_step() {
    for (auto it = m_.running.rbegin(); it != m_.running.rend(); ++it) {
      if (s_.jobs[*it].in_step != step_) return *it;
    }
    return kNoSlot;
  }

  void drop(SeqId seq) {
    m_.pool->drop(seq);
    out_.actions.emplace_back(DropSequence{device_.id, m_.id, seq});
  }

  void start_jobs(std::uint32_t running_at_start) {
    for (Slot slot = s_.jobs.first_waiting(); slot != kNoSlot;) {
      const Slot next = s_.jobs[slot].next;
      const Job& job = s_.jobs[slot];
      if (job.model == m_.id && job.need() > 0) {
        const Moment moment{running(), running_at_start, tokens_left_};
        if (running() >= s_.options.running_max || !s_.policy->may_start(moment)) return;
        if (job.unanswered > 0) return;  // Stepped back a moment ago; nobody overtakes it.
        if (!start(slot)) return;
        if (is_suspect(job)) return;
      }
      slot = next;
    }
  }

  // False if it does not fit now. A job that waits for its prefix is passed over, which is not
  // that.
  bool start(Slot slot) {
    Job& job = s_.jobs[slot];
    std::span<const std::uint64_t> keys = job.keys;
    keys = keys.first(std::min<std::size_t>(keys.size(), (job.known() - 1) / kBlockTokens));
    KvPool::Match match;
    if (m_.limits.cut_anywhere) match = m_.pool->match(keys);
    if (m_.limits.cut_anywhere && prefix_is_coming(keys, match.blocks)) return true;
    if (!fits(job, match)) return false;
    if (!m_.pool->has_free_sequence() && !free_a_sequence(match)) return false;

    if (match.blocks > 0 && m_.pool->state(match.seq) == KvPool::State::Cached) {
      m_.cache_budget = std::min(2 * std::max(m_.cache_budget, 1U), s_.options.cache_tokens);
    }
    s_.jobs.unwait(slot);
    job.seq = m_.pool->open(match.seq, match.blocks);
    job.at = Job::At::Running;
    job.planned = job.computed = match.blocks * kBlockTokens;
    const auto place = std::ranges::upper_bound(m_.running, job.arrival, {},
                                                [&](Slot s) { return s_.jobs[s].arrival; });
    m_.running.insert(place, slot);
    ++s_.running;
    out_.actions.emplace_back(
        OpenSequence{device_.id, m_.id, job.id, job.seq, match.seq, job.planned});
    // A suspect that finds company in this step has the next one to itself.
    if (!is_suspect(job) || record_->items.empty()) add_chunk(slot);
    return true;
  }

  bool prefix_is_coming(std::span<const std::uint64_t> keys, std::size_t have) {
    return std::ranges::any_of(m_.running, [&](Slot slot) {
      const Job& other = s_.jobs[slot];
      const std::size_t common = common_front(keys, other.keys);
      return common >= have + kPrefixWorthBlocks && other.computed / kBlockTokens < common;
    });
  }

  [[nodiscard]] bool fits(const Job& job, const KvPool::Match& match) const {
    const std::uint32_t expected =
        std::min(s_.options.output_expected, job.output_max - job.produced);
    const std::uint32_t need = blocks_for(std::uint64_t{job.known()} + expected) - match.blocks;
    std::uint32_t room = m_.pool->blocks_free() + m_.pool->blocks_reclaimable();
    if (m_.pool->state(match.seq) == KvPool::State::Cached) {
      room -= std::min(room, match.blocks);  // What is shared cannot be reclaimed too.
    }
    return need <= room;
  }

  bool free_a_sequence(KvPool::Match& match) {
    auto cached =
        m_.pool->least_recent_cached(match.blocks > 0 ? std::optional(match.seq) : std::nullopt);
    if (!cached && match.blocks > 0 && m_.pool->state(match.seq) == KvPool::State::Cached) {
      cached = match.seq;
      match = {};
    }
    if (cached) drop(*cached);
    return cached.has_value();
  }

  Scheduler::State& s_;
  Device& device_;
  Model& m_;
  Decision& out_;
  Unanswered* record_ = nullptr;
  std::uint32_t first_;
  std::uint32_t tokens_left_;
  std::uint64_t step_ = 0;
};

}  // namespace

void Scheduler::State::plan(Device& device, Decision& out) {
  while (device.count < options.runs_in_flight) {
    // The model that waited longest for a step goes first, if it has anything to do.
    order.clear();
    for (const Model& m : models) {
      if (m.at == Model::At::Ready && m.device == device.id) order.push_back(m.id);
    }
    std::ranges::sort(order, {}, [this](ModelId id) {
      return std::pair(models[id.value].last_planned, id.value);
    });
    const bool built = std::ranges::any_of(order, [&](ModelId id) {
      return StepBuilder(*this, device, models[id.value], out).build();
    });
    if (!built) return;
  }
}

}  // namespace lares::sched
