// What the scheduler promises, over random workloads on a virtual clock. A counterexample is
// printed as the sources it came from and a seed: enough to run it again.
#include <algorithm>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sim/report.h"

namespace lares::sim {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

constexpr std::uint32_t kMembers = 3;

// Targets and waits short enough to matter within a minute.
std::vector<sched::ClassSpec> classes() {
  return {{.name = "voice",
           .first_target = milliseconds(500),
           .gap_target = milliseconds(100),
           .guaranteed = 300,
           .floor = 50,
           .longest_wait = milliseconds(500)},
          {.name = "chat",
           .first_target = seconds(2),
           .gap_target = milliseconds(150),
           .guaranteed = 300,
           .floor = 50,
           .longest_wait = seconds(2)},
          {.name = "agent", .guaranteed = 100, .floor = 50, .longest_wait = seconds(4)}};
}

// Memory for everything, so that only time is scarce.
SimulatedDevice roomy() {
  SimulatedDevice device = *find_device("two-core-0.1b");
  device.limits.pool_tokens = 1U << 20U;
  device.limits.sequences = 256;
  return device;
}

SimulateOptions options_of(const std::string& policy) {
  SimulateOptions options;
  options.scheduler.policy = policy;
  options.scheduler.classes = classes();
  options.scheduler.running_max = 256;
  options.scheduler.jobs_max = 1U << 16U;
  options.check = true;
  return options;
}

std::vector<Source> random_sources() {
  std::vector<Source> sources;
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  for (std::size_t i = 0; i < count; ++i) {
    Source s;
    s.member = std::string(1, static_cast<char>('a' + *rc::gen::inRange(0, 3)));
    s.cls = *rc::gen::inRange<std::uint32_t>(0, 3);
    s.per_minute = *rc::gen::inRange<std::uint32_t>(1, 200);
    s.burst = *rc::gen::inRange<std::uint32_t>(1, 12);
    s.prompt = *rc::gen::inRange<std::uint32_t>(1, 2000);
    s.output = *rc::gen::inRange<std::uint32_t>(1, 60);
    sources.push_back(s);
  }
  return sources;
}

Workload random_workload() {
  const auto sources = random_sources();
  Workload w = generate("random", sources, seconds(8), *rc::gen::inRange<std::uint64_t>(0, 1000));
  // So many jobs at once that sequences run out are another matter (scheduler.sequences).
  if (w.arrivals.size() > 60) w.arrivals.resize(60);
  return w;
}

RC_GTEST_PROP(Lares, KeepsWhatDoctorPrints, ()) {
  const Workload workload = random_workload();
  SimulatedDevice device = roomy();
  device.cost.decode_attended_ps = *rc::gen::element<std::int64_t>(0, 100'000, 5'000'000);
  device.cost.prompt_attended_ps = *rc::gen::element<std::int64_t>(0, 200'000);
  device.cost.short_attended_ps = *rc::gen::element<std::int64_t>(0, 200'000, 5'000'000);
  device.cost.mixed_ps = *rc::gen::element<std::int64_t>(0, 13'000'000);
  const SimulateOptions options = options_of("lares");
  const Simulation run = *simulate(workload, device, options);
  const sched::Guarantees promised =
      guarantees(options.scheduler, device.limits, device.cost, kMembers);
  RC_ASSERT(run.longest_step <= promised.longest_slice);
  for (std::uint32_t member = 0; member < kMembers; ++member) {
    for (std::uint32_t cls = 0; cls < 3; ++cls) {
      Duration previous{};  // When the older ones of the same member and class had begun.
      for (const JobRecord& job : run.jobs) {
        if (job.member != member || job.cls != cls) continue;
        RC_ASSERT(!job.rejected && job.end >= Duration{});
        RC_ASSERT(job.started - std::max(job.arrival, previous) <= promised.longest_wait[cls]);
        previous = std::max(previous, job.started);
      }
    }
  }
}

RC_GTEST_PROP(EveryPolicy, ServesAllAndIsTheSameEachTime, ()) {
  const Workload workload = random_workload();
  const auto policy =
      *rc::gen::element<std::string>("lares", "fifo", "orca", "sarathi", "vtc", "priority");
  const Simulation one = *simulate(workload, roomy(), options_of(policy));
  const Simulation two = *simulate(workload, roomy(), options_of(policy));
  RC_ASSERT(one.steps == two.steps && one.length == two.length);
  for (std::size_t i = 0; i < one.jobs.size(); ++i) {
    RC_ASSERT(one.jobs[i].end == two.jobs[i].end);
    RC_ASSERT(one.jobs[i].output == workload.arrivals[i].output);
  }
}

RC_GTEST_PROP(EveryPolicy, NeverIdlesWhileAnythingWaits, ()) {
  Workload workload = random_workload();
  for (Arrival& a : workload.arrivals) a.at = Duration{};  // All at once: a backlog to the end.
  const auto policy =
      *rc::gen::element<std::string>("lares", "fifo", "orca", "sarathi", "vtc", "priority");
  const Simulation run = *simulate(workload, roomy(), options_of(policy));
  RC_ASSERT(run.busy == run.length);
}

RC_GTEST_PROP(EveryPolicy, ChargesWhatTheDeviceSpent, ()) {
  const Workload workload = random_workload();
  const Simulation run = *simulate(workload, roomy(), options_of("lares"));
  std::int64_t charged = 0;
  for (const JobRecord& job : run.jobs) charged += job.device_ns;
  RC_ASSERT(charged == run.busy.count());
}

// Members with as much to do as they like, alike but for their weight.
Workload backlog(std::uint32_t requests, std::uint32_t weight, std::uint32_t prompt,
                 std::uint32_t output) {
  Workload w;
  w.weights = {1000, weight};
  for (std::uint32_t i = 0; i < requests; ++i) {
    for (std::uint32_t m = 0; m < 2; ++m) {
      w.arrivals.push_back({.at = Duration(1),
                            .member = m,
                            .cls = 2,
                            .prompt = prompt,
                            .output = output,
                            .output_max = output});
    }
  }
  return w;
}

RC_GTEST_PROP(Lares, TwiceTheWeightIsTwiceTheShare, ()) {
  const auto prompt = *rc::gen::inRange<std::uint32_t>(50, 600);
  const auto output = *rc::gen::inRange<std::uint32_t>(1, 60);
  SimulateOptions options = options_of("lares");
  options.check = false;  // Long; others check.
  options.scheduler.running_max = 8;
  options.scheduler.classes[2].longest_wait = std::chrono::hours(1);  // Nobody is ever due.
  const Simulation run = *simulate(backlog(200, 2000, prompt, output), roomy(), options);
  // Until the heavier one runs out of work, after about two thirds of all.
  std::array<double, 2> done{};
  Duration until{};
  for (const JobRecord& job : run.jobs) {
    if (job.member == 1) until = std::max(until, job.end);
  }
  for (const JobRecord& job : run.jobs) {
    if (job.end <= until) done[job.member] += 1;
  }
  // Jobs are counted when they end: up to `running_max` are under way then, each of the lighter
  // member's worth two.
  RC_ASSERT(std::abs(done[1] - 2 * done[0]) <= 2.0 * options.scheduler.running_max);
}

RC_GTEST_PROP(Lares, IdlenessEarnsNoCredit, ()) {
  // One works alone for a while; the other then comes, and both are served alike from there on.
  Workload workload = backlog(100, 1000, 200, 20);
  const auto late = seconds(*rc::gen::inRange(1, 8));
  for (Arrival& a : workload.arrivals) {
    if (a.member == 1) a.at = late;
  }
  std::ranges::stable_sort(workload.arrivals, {}, &Arrival::at);
  SimulateOptions options = options_of("lares");
  options.check = false;  // Long; others check.
  options.scheduler.running_max = 8;
  options.scheduler.classes[2].longest_wait = std::chrono::hours(1);
  const Simulation run = *simulate(workload, roomy(), options);
  std::array<double, 2> done{};
  for (const JobRecord& job : run.jobs) {
    if (job.end > late && job.end <= late + seconds(15)) done[job.member] += 1;
  }
  if (done[0] + done[1] < 30) return;  // The first was nearly done already.
  RC_ASSERT(done[1] / done[0] > 0.75 && done[1] / done[0] < 1.35);
}

// What each member was served up to a moment: prompts at admission; outputs, evenly between first
// and last.
std::array<double, kMembers> served_until(const Simulation& run, Duration until) {
  std::array<double, kMembers> served{};
  for (const JobRecord& job : run.jobs) {
    if (job.started < Duration{} || job.started > until) continue;
    const double length = static_cast<double>((job.end - job.first_output).count());
    const double part =
        job.end <= until ? 1
                         : std::max(0.0, static_cast<double>((until - job.first_output).count()) /
                                             std::max(length, 1.0));
    served[job.member] += job.prompt + 2.0 * part * job.output;
  }
  return served;
}

// Theorem 4.4 of the VTC paper: while two clients both have a backlog, what they were served in any
// interval differs by at most 2 max(w_p L_input, w_q M).
RC_GTEST_PROP(Vtc, KeepsItsBound, ()) {
  const auto pool = *rc::gen::inRange<std::uint32_t>(40, 200) * 16;
  SimulatedDevice device = *find_device("two-core-0.1b");
  device.limits = {.pool_tokens = pool + 256 * 16,
                   .context = 4096,
                   .sequences = 256,
                   .batch_tokens = 65536,
                   .cut_anywhere = false};
  device.batching = {.admit_every = *rc::gen::inRange<std::uint32_t>(1, 12),
                     .prompts_apart = *rc::gen::arbitrary<bool>(),
                     .reserve_tokens = pool};
  Workload workload = generate("backlog",
                               {{.member = "a",
                                 .per_minute = 6000,
                                 .prompt = *rc::gen::inRange<std::uint32_t>(10, 200),
                                 .prompt_spread = 9,
                                 .output = *rc::gen::inRange<std::uint32_t>(10, 200),
                                 .output_spread = 9},
                                {.member = "b",
                                 .per_minute = 6000,
                                 .prompt = *rc::gen::inRange<std::uint32_t>(10, 200),
                                 .prompt_spread = 9,
                                 .output = *rc::gen::inRange<std::uint32_t>(10, 200),
                                 .output_spread = 9}},
                               seconds(2), *rc::gen::inRange<std::uint64_t>(0, 1000));
  SimulateOptions options = options_of("vtc");
  const Simulation run = *simulate(workload, device, options);
  std::uint32_t longest_input = 0;
  Duration backlogged = Duration::max();
  std::array<Duration, 2> last_start{};
  for (const JobRecord& job : run.jobs) {
    longest_input = std::max(longest_input, job.prompt);
    last_start[job.member] = std::max(last_start[job.member], job.started);
  }
  backlogged = std::min(last_start[0], last_start[1]);
  const auto served = served_until(run, backlogged);
  const double bound = 2.0 * std::max<double>(longest_input, 2.0 * pool);
  RC_ASSERT(std::abs(served[0] - served[1]) <= bound);
}

// Two members exchange equal requests: nobody is served otherwise by more than the bound above.
RC_GTEST_PROP(Vtc, ExchangingEqualRequestsChangesLittle, ()) {
  const std::uint32_t pool = *rc::gen::inRange<std::uint32_t>(40, 200) * 16;
  SimulatedDevice device = *find_device("two-core-0.1b");
  device.limits = {.pool_tokens = pool + 256 * 16,
                   .context = 4096,
                   .sequences = 256,
                   .batch_tokens = 65536,
                   .cut_anywhere = false};
  device.batching = {.admit_every = 4, .reserve_tokens = pool};
  std::vector<Source> sources = random_sources();
  for (Source& s : sources) {
    s.cls = 0;
    s.prompt = std::min(s.prompt, 300U);
  }
  Workload workload =
      generate("random", sources, seconds(8), *rc::gen::inRange<std::uint64_t>(0, 1000));
  if (workload.arrivals.size() > 80) workload.arrivals.resize(80);
  RC_PRE(workload.arrivals.size() >= 2);
  Arrival& first = workload.arrivals[*rc::gen::inRange<std::size_t>(0, workload.arrivals.size())];
  Arrival& second = workload.arrivals[*rc::gen::inRange<std::size_t>(0, workload.arrivals.size())];
  second.prompt = first.prompt;
  second.output = second.output_max = first.output = first.output_max;
  std::swap(first.member, second.member);
  const Workload swapped = workload;
  std::swap(first.member, second.member);
  const Simulation one = *simulate(workload, device, options_of("vtc"));
  const Simulation two = *simulate(swapped, device, options_of("vtc"));
  std::uint32_t longest_input = 0;
  for (const Arrival& a : workload.arrivals) longest_input = std::max(longest_input, a.prompt);
  const double bound = 2.0 * std::max<double>(longest_input, 2.0 * pool);
  for (int part = 1; part < 8; ++part) {
    const auto before = served_until(one, one.length * part / 8);
    const auto after = served_until(two, one.length * part / 8);
    for (std::size_t m = 0; m < kMembers; ++m) RC_ASSERT(std::abs(before[m] - after[m]) <= bound);
  }
}

// Two members change places: not one moment differs, for it does not matter who asks, only what.
RC_GTEST_PROP(EveryPolicy, DoesNotCareWhoIsWho, ()) {
  Workload workload = random_workload();
  // Ties go to who came first; arrivals at one moment would change places.
  for (std::size_t i = 0; i < workload.arrivals.size(); ++i) workload.arrivals[i].at += Duration(i);
  Workload swapped = workload;
  for (Arrival& a : swapped.arrivals) a.member = a.member < 2 ? 1 - a.member : a.member;
  SimulateOptions options =
      options_of(*rc::gen::element<std::string>("lares", "fifo", "orca", "sarathi", "vtc"));
  options.check = false;  // Others check.
  const Simulation one = *simulate(workload, roomy(), options);
  const Simulation two = *simulate(swapped, roomy(), options);
  for (std::size_t i = 0; i < one.jobs.size(); ++i) {
    RC_ASSERT(one.jobs[i].first_output == two.jobs[i].first_output);
    RC_ASSERT(one.jobs[i].end == two.jobs[i].end);
  }
}

}  // namespace
}  // namespace lares::sim
