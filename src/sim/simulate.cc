#include "sim/simulate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>

#include "core/assert.h"

namespace lares::sim {
namespace {

// The world around the scheduler: clients that send what the workload says, and a device.
class World {
 public:
  World(const Workload& workload, const SimulatedDevice& device, sched::Scheduler scheduler,
        const SimulateOptions& options)
      : workload_(workload),
        device_(device),
        scheduler_(std::move(scheduler)),
        check_(options.check),
        estimates_(options.estimates),
        cells_(workload.arrivals.size()),
        last_output_(workload.arrivals.size()) {
    result_.jobs.reserve(workload.arrivals.size());
    for (const Arrival& a : workload.arrivals) {
      result_.jobs.push_back(
          {.arrival = a.at, .member = a.member, .cls = a.cls, .prompt = a.prompt, .output = 0});
    }
  }

  Simulation run() {
    events_.emplace_back(sched::ModelReady{ModelId{0}, DeviceId{0}, device_.limits, device_.cost});
    events_.emplace_back(sched::HostMemory{DeviceId{0}, device_.host});
    for (std::uint32_t m = 0; m < workload_.weights.size(); ++m)
      events_.emplace_back(sched::MemberChanged{MemberId{m}, {.weight = workload_.weights[m]}});
    for (;;) {
      decide();
      const bool arrives = next_ < workload_.arrivals.size();
      if (!arrives && runs_.empty()) break;
      const Duration arrival = arrives ? workload_.arrivals[next_].at : Duration::max();
      const Duration wake = decision_.wake_at.time_since_epoch();
      const Duration ends = runs_.empty() ? Duration::max() : runs_.front().ends;
      if (wake > now_ && wake < std::min(arrival, ends)) {
        now_ = wake;
      } else if (!runs_.empty() && runs_.front().ends <= arrival) {
        now_ = runs_.front().ends;
        answer();
      } else {
        now_ = std::max(now_, arrival);
        arrive();
        if (estimates_) ask_how_long();
      }
    }
    return std::move(result_);
  }

 private:
  struct Run {
    RunId id;
    Duration took{}, ends{};
    std::vector<sched::StepItem> items;
  };

  void decide() {
    scheduler_.step(Instant(now_), events_, decision_);
    if (check_) scheduler_.check();
    result_.events += events_.size();
    events_.clear();
    for (const sched::Charge& charge : decision_.charges)
      result_.jobs[charge.job.value].device_ns += charge.device.count();
    for (const sched::Action& action : decision_.actions)
      std::visit([this](const auto& a) { act(a); }, action);
  }

  void arrive() {
    const Arrival& a = workload_.arrivals[next_];
    events_.emplace_back(sched::Submitted{JobId{next_},
                                          MemberId{a.member},
                                          ClassId{a.cls},
                                          TaskId{a.task},
                                          ModelId{0},
                                          a.prompt,
                                          a.output_max,
                                          {}});
    ++next_;
  }

  // As a client would that has just sent the latest job.
  void ask_how_long() {
    decide();
    for (const sched::Scheduler::Place& place : scheduler_.queue()) {
      if (place.job.value + 1 == next_) result_.jobs[place.job.value].estimate = place.estimate;
    }
  }

  // The oldest run is done.
  void answer() {
    Run run = std::move(runs_.front());
    runs_.pop_front();
    done_.clear();
    ended_.clear();
    for (const sched::StepItem& item : run.items) done_.push_back(perform(item));
    result_.busy += run.took;
    result_.longest_step = std::max(result_.longest_step, run.took);
    ++result_.steps;
    events_.emplace_back(sched::Stepped{DeviceId{0}, run.id, run.took, done_});
    for (const std::uint64_t job : ended_) events_.emplace_back(sched::Ended{JobId{job}, {}, {}});
    spare_.push_back(std::move(run.items));
  }

  sched::ItemDone perform(const sched::StepItem& item) {
    const std::uint64_t id = item.job.value;
    JobRecord& job = result_.jobs[id];
    const Arrival& arrival = workload_.arrivals[id];
    if (job.end >= Duration{}) return {item.job, 0, false};  // Ended meanwhile: skipped.
    cells_[id] += item.tokens;
    if (cells_[id] < job.prompt + job.output) return {item.job, item.tokens, false};
    if (job.output++ == 0) {
      job.first_output = now_;
    } else {
      const Duration gap = now_ - last_output_[id];
      result_.gaps.add(gap);
      job.longest_gap = std::max(job.longest_gap, gap);
    }
    last_output_[id] = now_;
    if (job.output == arrival.output) {
      job.end = now_;
      result_.length = now_;
      ended_.push_back(id);
    }
    return {item.job, item.tokens, true};
  }

  void act(const sched::OpenSequence& a) { cells_[a.job.value] = a.from_tokens; }
  void act(const sched::RestoreState& a) {
    copying_ += copy_time(a.end - cells_[a.job.value]);
    cells_[a.job.value] = a.end;
  }
  void act(const sched::SaveState& a) {
    const Duration took = copy_time(a.tokens);
    copying_ += took;
    ++result_.saves;
    const Bytes bytes{device_.limits.kv_per_token.count * a.tokens};
    events_.emplace_back(sched::StateSaved{a.device, a.state, bytes, took});
  }
  void act(const sched::ForgetState& /*a*/) {}
  [[nodiscard]] Duration copy_time(std::uint32_t tokens) const {
    return Duration(device_.limits.kv_per_token.count * tokens / device_.copy_bytes_per_ns);
  }
  void act(const sched::RunStep& a) {
    Run run;
    run.id = a.run;
    if (!spare_.empty()) {
      run.items = std::move(spare_.back());
      spare_.pop_back();
    }
    run.items.assign(decision_.items.begin() + a.first,
                     decision_.items.begin() + a.first + a.count);
    const Duration begins = (runs_.empty() ? now_ : runs_.back().ends) + copying_;
    copying_ = {};
    sched::StepShape shape;
    const Scheduler::PoolUse pool = scheduler_.pool(ModelId{0});
    shape.span = pool.tokens - pool.free;
    for (const sched::StepItem& item : run.items) {
      JobRecord& job = result_.jobs[item.job.value];
      if (job.started < Duration{}) job.started = begins;
      shape.add(cells_[item.job.value], item.tokens);
    }
    run.took = std::max(device_.cost.time(shape), Duration(1));
    run.ends = begins + run.took;
    runs_.push_back(std::move(run));
  }
  void act(const sched::Reject& a) {
    result_.jobs[a.job.value].rejected = true;
    result_.jobs[a.job.value].end = now_;
  }
  void act(const sched::DropSequence& /*a*/) {}
  void act(const sched::LoadModel& /*a*/) {}
  void act(const sched::UnloadModel& /*a*/) {}

  using Scheduler = sched::Scheduler;

  const Workload& workload_;
  const SimulatedDevice& device_;
  Scheduler scheduler_;
  bool check_, estimates_;
  Simulation result_;
  Duration now_{};
  Duration copying_{};  // Before the next step.
  std::size_t next_ = 0;
  std::deque<Run> runs_;
  std::vector<std::vector<sched::StepItem>> spare_;
  std::vector<std::uint32_t> cells_;   // By job: tokens in its sequence.
  std::vector<Duration> last_output_;  // By job.
  std::vector<sched::Event> events_;
  std::vector<sched::ItemDone> done_;
  std::vector<std::uint64_t> ended_;
  sched::Decision decision_;
};

}  // namespace

void GapHistogram::add(Duration gap) {
  const auto ns = static_cast<std::uint64_t>(std::max<Duration::rep>(gap.count(), 8));
  const auto power = static_cast<std::uint64_t>(std::bit_width(ns)) - 1;
  const std::uint64_t eighth = (ns >> (power - 3)) & 7U;
  ++counts_[power * 8 + eighth];
  ++total_;
}

Duration GapHistogram::quantile(double q) const {
  const auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(total_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank && seen > 0) {
      const std::uint64_t eighths = 8 + i % 8 + 1;  // The bucket's upper end.
      return Duration(static_cast<Duration::rep>((std::uint64_t{1} << (i / 8)) / 8 * eighths));
    }
  }
  return {};
}

Result<Simulation> simulate(const Workload& workload, const SimulatedDevice& device,
                            const SimulateOptions& options) {
  sched::Options scheduler_options = options.scheduler;
  const std::string& policy = scheduler_options.policy;
  SimulatedDevice on = device;
  if (policy == "fifo" || policy == "orca" || policy == "vtc") {
    scheduler_options.batching = device.batching;
    // That server counts tokens, ours blocks: each sequence may waste one.
    if (device.batching.reserve_tokens > 0)
      on.limits.pool_tokens += on.limits.sequences * sched::kBlockTokens;
  }
  auto scheduler = TRY(sched::Scheduler::create(scheduler_options));
  Simulation result = World(workload, on, std::move(scheduler), options).run();
  result.policy = scheduler_options.policy;
  return result;
}

}  // namespace lares::sim
