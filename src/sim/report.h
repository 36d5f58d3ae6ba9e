// What a simulation came to, for people and programs: one summary a policy, as a table, JSON, CSV
// and an SVG plot.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/fairness.h"
#include "sim/simulate.h"

namespace lares::sim {

struct Quantiles {
  double p50 = 0, p99 = 0, mean = 0;
};

struct MemberSummary {
  std::uint32_t id = 0;
  std::uint64_t requests = 0;
  double first_token_mean_s = 0;
  double service = 0;         // 1 x prompt + 2 x output tokens.
  double device_seconds = 0;  // Charged.
};

struct ClassSummary {
  std::string name;
  std::uint64_t requests = 0;
  Quantiles first_token_s, completion_s;
  double longest_wait_s = 0;          // To the first token of the prompt given to the device.
  std::uint64_t deadline_misses = 0;  // First outputs after the class's target.
};

struct Summary {
  std::string policy;
  double throughput_tokens_s = 0;  // Prompt and output tokens, to the end of the last job.
  ServiceDifference service_difference;
  double jain = 1;  // Of service / weight between members backlogged for a minute, mean over time.
  Quantiles first_token_s, completion_s;
  double gap_p50_s = 0, gap_p99_s = 0, gap_p999_s = 0;
  double longest_wait_s = 0, longest_step_s = 0, busy = 0;  // busy: part of the time.
  // Of jobs that were told how long they would wait: how long they did, and how far off that was.
  Quantiles told_wait_s, estimate_error_s;
  std::uint64_t requests = 0, rejected = 0, events = 0, steps = 0;
  std::vector<MemberSummary> members;
  std::vector<ClassSummary> classes;
};

Summary summarise(const Simulation& simulation, const Workload& workload,
                  const std::vector<sched::ClassSpec>& classes);
// The same figures of what a trace's own server did; no gaps, no device time.
Summary summarise(const Published& published, const Workload& workload);

std::string to_table(std::span<const Summary> summaries);
std::string to_json(std::span<const Summary> summaries, const std::string& trace,
                    const SimulatedDevice& device);
std::string to_csv(std::span<const Summary> summaries);
// Served cost over time, a line a member, a panel a policy.
std::string to_svg(std::span<const Simulation> simulations, const std::string& title);

}  // namespace lares::sim
