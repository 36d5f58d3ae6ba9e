// A device for scheduler tests: keeps what each sequence holds, does runs when told to, and asserts
// that nothing impossible is asked of it. Tests only.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/assert.h"
#include "core/hash.h"
#include "sched/event_log.h"
#include "sched/scheduler.h"

namespace lares::sched {

// One job as the server would know it.
struct TestJob {
  std::uint64_t member = 0;
  std::vector<std::int32_t> tokens;  // Prompt, then output.
  std::uint32_t prompt = 0, output_max = 0;
  std::uint32_t stop_at = 0;  // Output at which it ends by itself; 0 = at output_max.
  std::uint32_t reused = 0;   // Tokens taken from another sequence, last time it was opened.
  std::uint32_t opened = 0;
};

// A scheduler with one device and one model, driven by a fake clock.
class TestDevice {
 public:
  explicit TestDevice(const Options& options, ModelLimits limits = {.pool_tokens = 4096,
                                                                    .context = 2048,
                                                                    .sequences = 32,
                                                                    .batch_tokens = 512})
      : scheduler_(std::move(*Scheduler::create(options))), limits_(limits) {
    append_options(log, options);
  }

  // The first `front` tokens are those of text 0.
  void submit(std::uint64_t id, std::uint32_t prompt, std::uint32_t output,
              std::uint64_t member = 0, std::uint64_t text = 0, std::uint32_t cls = 0,
              std::uint64_t task = 0, std::uint32_t front = 0) {
    TestJob job;
    job.member = member;
    job.prompt = prompt;
    job.output_max = output;
    for (std::uint32_t i = 0; i < prompt; ++i) {
      const std::uint64_t of = i < front ? 0 : text;
      job.tokens.push_back(static_cast<std::int32_t>(hash_combine(of, i) % 1000));
    }
    jobs[id] = std::move(job);
    keys_.emplace_back();
    append_prefix_keys({.own = member}, jobs[id].tokens, keys_.back());
    events_.emplace_back(Submitted{JobId{id}, MemberId{static_cast<std::uint32_t>(member)},
                                   ClassId{cls}, TaskId{task}, ModelId{0}, prompt, output,
                                   keys_.back()});
  }

  void end(std::uint64_t id, EndCause cause) {
    const auto it = jobs.find(id);
    if (it == jobs.end()) return;
    keys_.emplace_back();
    append_prefix_keys({.own = it->second.member}, it->second.tokens, keys_.back());
    events_.emplace_back(Ended{JobId{id}, cause, keys_.back()});
    (cause == EndCause::Finished ? finished : ended).push_back(id);
    jobs.erase(it);
  }

  void lose_device() {
    sequences_.clear();
    states_.clear();
    mirrors_.clear();
    early_.clear();
    runs_.clear();
    resident_ = false;
    events_.emplace_back(DeviceLost{DeviceId{0}});
  }

  // Does the oldest run, if there is one, and reports it.
  bool answer() {
    if (runs_.empty()) return false;
    const auto [run, items] = std::move(runs_.front());
    runs_.pop_front();
    const Duration took = takes_time ? time_of(items) : Duration(1000);
    now_ += took;
    items_.emplace_back();
    std::vector<std::uint64_t> done;
    for (const StepItem& item : items) items_.back().push_back(perform(item, done));
    for (const Mirror& m : mirrors_) {
      if (m.run == run) catch_up(m);
    }
    std::erase_if(mirrors_, [run = run](const Mirror& m) { return m.run == run; });
    events_.emplace_back(Stepped{DeviceId{0}, run, took, items_.back()});
    for (const std::uint64_t id : done) end(id, EndCause::Finished);
    return true;
  }

  void wait(Duration time) { now_ += time; }
  [[nodiscard]] Instant now() const { return now_; }

  // For states; told with the next decision.
  void give_host(Bytes budget) {
    host_budget_ = budget;
    events_.emplace_back(HostMemory{DeviceId{0}, budget});
  }
  [[nodiscard]] std::size_t states() const { return states_.size(); }
  [[nodiscard]] Bytes held() const {
    Bytes all{};
    for (const auto& [id, state] : states_)
      all += Bytes{limits_.kv_per_token.count * (state.end - state.from)};
    return all;
  }

  // Lets the scheduler decide, and does what it says except the runs, which wait for answer().
  void decide() {
    scheduler_.step(now_, events_, decision);
    scheduler_.check();
    check_counters();
    LARES_ASSERT(scheduler_.queue().size() == scheduler_.waiting(),
                 "the queue is not all that wait");
    append_step(log, now_, events_, decision);
    events_.clear();
    keys_.clear();
    items_.clear();
    for (const Action& action : decision.actions)
      std::visit([this](const auto& a) { act(a); }, action);
    if (!events_.empty()) decide();  // A load was answered.
  }

  void run_until_idle(int steps_max = 100000) {
    for (int i = 0; i < steps_max; ++i) {
      decide();
      if (!answer()) return;
    }
    LARES_ASSERT(false, "still busy after {} steps", steps_max);
  }

  Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] std::size_t unanswered() const { return runs_.size(); }
  // Items of the run sent last.
  [[nodiscard]] const std::vector<StepItem>& last_run() const { return last_run_; }

  std::map<std::uint64_t, TestJob> jobs;  // Not ended.
  std::vector<std::uint64_t> finished, ended, rejected;
  std::uint64_t computed = 0;  // Tokens, over all runs.
  Decision decision;
  std::string log;
  bool takes_time = false;  // As `cost` says; else a step takes a microsecond.
  bool load_fails = false;
  bool saves_fail = false;
  int refuse_restores = 0;
  std::uint32_t saved = 0, put_back = 0;
  CostTable cost;  // Told with the model.

 private:
  struct Sequence {
    std::uint64_t job = 0;
    std::vector<std::int32_t> cells;
    bool refused = false;
  };
  struct State {
    std::uint32_t ghost = 0;  // The sequence it was copied to.
    std::uint32_t from = 0, end = 0;
  };
  // What a run in flight will compute in a sequence is in the state that was copied behind it, too.
  struct Mirror {
    RunId run;
    std::uint32_t seq = 0, ghost = 0;
  };

  // A state put back before the run that is to fill it was answered.
  struct Early {
    std::uint32_t ghost = 0, seq = 0;
    std::uint64_t job = 0;
  };

  [[nodiscard]] Duration time_of(const std::vector<StepItem>& items) const {
    StepShape shape{};
    for (const StepItem& item : items) {
      const auto found = sequences_.find(item.seq.value);
      const std::size_t cells = found == sequences_.end() ? 0 : found->second.cells.size();
      shape.add(static_cast<std::uint32_t>(cells), item.tokens);
    }
    return std::max(cost.time(shape), Duration(1000));
  }

  // Accounts' first invariant.
  void check_counters() {
    for (const Scheduler::MemberUse& use : scheduler_.members()) {
      std::int64_t& before = counters_[use.member.value];
      LARES_ASSERT(use.counter >= before, "member {}: {} after {}", use.member.value, use.counter,
                   before);
      before = use.counter;
    }
  }

  ItemDone perform(const StepItem& item, std::vector<std::uint64_t>& done) {
    const auto sequence = sequences_.find(item.seq.value);
    if (sequence != sequences_.end() && sequence->second.refused) return {item.job, 0, false};
    LARES_ASSERT(sequence != sequences_.end(), "run on sequence {} that is not open",
                 item.seq.value);
    const auto found = jobs.find(item.job.value);
    if (found == jobs.end()) return {item.job, 0, false};  // Ended meanwhile: the engine skips it.
    TestJob& job = found->second;
    auto& cells = sequence->second.cells;
    LARES_ASSERT(cells.size() + item.tokens <= job.tokens.size(), "job {} computes {}+{} of {}",
                 item.job.value, cells.size(), item.tokens, job.tokens.size());
    for (std::uint32_t i = 0; i < item.tokens; ++i) cells.push_back(job.tokens[cells.size()]);
    computed += item.tokens;
    if (cells.size() < job.tokens.size()) return {item.job, item.tokens, false};
    if (job.output_max == 0) {
      done.push_back(item.job.value);
      return {item.job, item.tokens, false};
    }
    job.tokens.push_back(
        static_cast<std::int32_t>(hash_combine(item.job.value, cells.size()) % 1000));
    const auto output = static_cast<std::uint32_t>(job.tokens.size()) - job.prompt;
    LARES_ASSERT(output <= job.output_max, "job {} made {} of {}", item.job.value, output,
                 job.output_max);
    if (output == job.output_max || output == job.stop_at) done.push_back(item.job.value);
    return {item.job, item.tokens, true};
  }

  void act(const UnloadModel& /*a*/) { LARES_ASSERT(false, "there is room for the one model"); }
  void act(const LoadModel& a) {
    if (load_fails) {
      events_.emplace_back(ModelFailed{a.model});
      return;
    }
    resident_ = true;
    events_.emplace_back(ModelReady{a.model, a.device, limits_, cost});
  }
  void act(const OpenSequence& a) {
    LARES_ASSERT(resident_ && !sequences_.contains(a.seq.value), "sequence {} is open",
                 a.seq.value);
    TestJob& job = jobs.at(a.job.value);
    Sequence sequence{a.job.value, {}, false};
    if (a.from_tokens > 0) {
      const auto& source = sequences_.at(a.from.value).cells;
      LARES_ASSERT(a.from_tokens <= source.size() && a.from_tokens < job.tokens.size(),
                   "{} tokens from {}", a.from_tokens, source.size());
      sequence.cells.assign(source.begin(), source.begin() + a.from_tokens);
      LARES_ASSERT(std::equal(sequence.cells.begin(), sequence.cells.end(), job.tokens.begin()),
                   "job {} was given another's words", a.job.value);
    }
    job.reused = a.from_tokens;
    ++job.opened;
    sequences_[a.seq.value] = std::move(sequence);
  }
  void act(const RunStep& a) {
    std::vector<StepItem> items(decision.items.begin() + a.first,
                                decision.items.begin() + a.first + a.count);
    std::set<std::uint64_t> jobs_in_run;
    std::uint32_t tokens = 0;
    for (const StepItem& item : items) {
      LARES_ASSERT(jobs_in_run.insert(item.job.value).second, "twice in a run");
      LARES_ASSERT(item.tokens > 0, "an empty item");
      tokens += item.tokens;
    }
    LARES_ASSERT(tokens <= limits_.batch_tokens, "{} tokens in a run", tokens);
    last_run_ = items;
    runs_.emplace_back(a.run, std::move(items));
  }
  void act(const DropSequence& a) {
    // Runs sent before still compute in it; the engine performs messages in order. Here they are
    // answered late, so what they would do is kept by the job's tokens alone.
    pending_drop(a.seq.value);
  }
  void act(const RestoreState& a) {
    const TestJob& job = jobs.at(a.job.value);
    Sequence& sequence = sequences_.at(a.seq.value);
    if (refuse_restores > 0 || !states_.contains(a.state.value)) {
      LARES_ASSERT(refuse_restores > 0 || saves_fail, "state {} is not there", a.state.value);
      if (refuse_restores > 0) --refuse_restores;
      sequence.refused = true;
      events_.emplace_back(RestoreFailed{a.job});
      return;
    }
    const State& state = states_.at(a.state.value);
    ++put_back;
    if (std::ranges::any_of(mirrors_, [&](const Mirror& m) { return m.ghost == state.ghost; })) {
      sequence.cells.assign(job.tokens.begin(), job.tokens.begin() + a.end);
      early_.push_back({state.ghost, a.seq.value, a.job.value});
      return;
    }
    const auto& held = sequences_.at(state.ghost).cells;
    LARES_ASSERT(state.from == sequence.cells.size() && state.end <= held.size() &&
                     a.end > state.from && a.end <= state.end && a.end < job.tokens.size(),
                 "job {} takes {} to {} of a state of {} to {}", a.job.value, sequence.cells.size(),
                 a.end, state.from, state.end);
    LARES_ASSERT(limits_.cut_anywhere || a.end == state.end, "a part of a state is put back");
    sequence.cells.assign(held.begin(), held.begin() + a.end);
    LARES_ASSERT(std::equal(sequence.cells.begin(), sequence.cells.end(), job.tokens.begin()),
                 "job {} was given another's words", a.job.value);
  }
  void act(const SaveState& a) {
    // What runs in flight will compute in the sequence is there when the device comes to save it.
    const std::uint32_t ghost = next_ghost_++;
    sequences_[ghost] = sequences_.at(a.seq.value);
    for (const auto& [run, items] : runs_) {
      if (std::ranges::any_of(items, [&](const StepItem& i) { return i.seq == a.seq; }))
        mirrors_.push_back({run, a.seq.value, ghost});
    }
    LARES_ASSERT(states_.emplace(a.state.value, State{ghost, a.from, a.from + a.tokens}).second,
                 "state {} is in use", a.state.value);
    ++saved;
    if (saves_fail) {
      states_.erase(a.state.value);
      events_.emplace_back(StateLost{a.device, a.state});
      return;
    }
    LARES_ASSERT(held() <= host_budget_, "{} bytes of states", held().count);
    events_.emplace_back(
        StateSaved{a.device, a.state, Bytes{limits_.kv_per_token.count * a.tokens}, Duration(100)});
  }
  void act(const ForgetState& a) {
    LARES_ASSERT(states_.erase(a.state.value) == 1 || saves_fail, "state {} is not there",
                 a.state.value);
  }
  void act(const Reject& a) {
    rejected.push_back(a.job.value);
    jobs.erase(a.job.value);
  }
  // A run that skipped its job's item leaves the sequence shorter than what was to be saved of it.
  void catch_up(const Mirror& m) {
    sequences_[m.ghost].cells = sequences_.at(m.seq).cells;
    std::erase_if(states_, [&](const auto& entry) {
      const auto& [id, state] = entry;
      if (state.ghost != m.ghost || sequences_[m.ghost].cells.size() >= state.end) return false;
      events_.emplace_back(StateLost{DeviceId{0}, StateId{id}});
      for (const Early& e : early_) {
        const auto taker = sequences_.find(e.seq);
        if (e.ghost != m.ghost || taker == sequences_.end() || taker->second.job != e.job) continue;
        taker->second.refused = true;
        events_.emplace_back(RestoreFailed{JobId{e.job}});
      }
      return true;
    });
    std::erase_if(early_, [&](const Early& e) { return e.ghost == m.ghost; });
  }
  // A copy of the sequence, in which the runs in flight go on.
  std::uint32_t make_ghost(std::uint32_t seq) {
    const std::uint32_t ghost = next_ghost_++;
    sequences_[ghost] = sequences_.at(seq);
    for (auto& [run, items] : runs_) {
      for (StepItem& item : items) {
        if (item.seq.value == seq) item.seq = SeqId{ghost};
      }
    }
    for (Mirror& m : mirrors_) {
      if (m.seq == seq) m.seq = ghost;
    }
    return ghost;
  }

  void pending_drop(std::uint32_t seq) {
    // The runs in flight come first in the engine's order: do their work on a copy that answer()
    // finds.
    for (const auto& [run, items] : runs_) {
      if (std::ranges::any_of(items, [&](const StepItem& i) { return i.seq.value == seq; }))
        make_ghost(seq);
    }
    LARES_ASSERT(sequences_.erase(seq) == 1, "dropped sequence {} was not open", seq);
  }

  Scheduler scheduler_;
  ModelLimits limits_;
  std::map<std::uint32_t, std::int64_t> counters_;  // By member.
  Instant now_{};
  bool resident_ = false;
  std::vector<Event> events_;
  std::deque<std::vector<std::uint64_t>> keys_;
  std::deque<std::vector<ItemDone>> items_;
  std::map<std::uint32_t, Sequence> sequences_;
  std::deque<std::pair<RunId, std::vector<StepItem>>> runs_;
  std::vector<StepItem> last_run_;
  std::map<std::uint64_t, State> states_;
  std::vector<Mirror> mirrors_;
  std::vector<Early> early_;
  std::uint32_t next_ghost_ = 1000;
  Bytes host_budget_{};
};

}  // namespace lares::sched
