// A device for scheduler tests: keeps what each sequence holds, does runs when told to, and asserts
// that nothing impossible is asked of it. Tests only.
#pragma once

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

  void submit(std::uint64_t id, std::uint32_t prompt, std::uint32_t output,
              std::uint64_t member = 0, std::uint64_t text = 0, std::uint32_t cls = 0,
              std::uint64_t task = 0) {
    TestJob job;
    job.member = member;
    job.prompt = prompt;
    job.output_max = output;
    for (std::uint32_t i = 0; i < prompt; ++i) {
      job.tokens.push_back(static_cast<std::int32_t>(hash_combine(text, i) % 1000));
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
    runs_.clear();
    resident_ = false;
    events_.emplace_back(DeviceLost{DeviceId{0}});
  }

  // Does the oldest run, if there is one, and reports it.
  bool answer() {
    if (runs_.empty()) return false;
    const auto [run, items] = std::move(runs_.front());
    runs_.pop_front();
    now_ += Duration(1000);
    items_.emplace_back();
    std::vector<std::uint64_t> done;
    for (const StepItem& item : items) items_.back().push_back(perform(item, done));
    events_.emplace_back(Stepped{DeviceId{0}, run, Duration(1000), items_.back()});
    for (const std::uint64_t id : done) end(id, EndCause::Finished);
    return true;
  }

  void wait(Duration time) { now_ += time; }

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
  bool load_fails = false;
  CostTable cost;  // Told with the model.

 private:
  struct Sequence {
    std::uint64_t job = 0;
    std::vector<std::int32_t> cells;
  };

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
    Sequence sequence{a.job.value, {}};
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
  void act(const Reject& a) {
    rejected.push_back(a.job.value);
    jobs.erase(a.job.value);
  }
  void pending_drop(std::uint32_t seq) {
    // The runs in flight come first in the engine's order: do their work on a copy that answer()
    // finds.
    for (auto& [run, items] : runs_) {
      for (StepItem& item : items) {
        if (item.seq.value != seq) continue;
        const std::uint32_t ghost = next_ghost_++;
        sequences_[ghost] = sequences_.at(seq);
        for (auto& [later, later_items] : runs_) {
          for (StepItem& other : later_items) {
            if (other.seq.value == seq) other.seq = SeqId{ghost};
          }
        }
      }
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
  std::uint32_t next_ghost_ = 1000;
};

}  // namespace lares::sched
