#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "sim/report.h"

namespace lares::sim {
namespace {

Quantiles quantiles(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return {.p50 = quantile(values, 0.5),
          .p99 = quantile(values, 0.99),
          .mean = values.empty() ? 0 : sum / static_cast<double>(values.size())};
}

void add_members(Summary& summary, std::span<const Served> served) {
  for (const Served& s : served) {
    if (summary.members.size() <= s.member) summary.members.resize(s.member + 1);
    MemberSummary& m = summary.members[s.member];
    ++m.requests;
    m.first_token_mean_s += in_seconds(s.first_output - s.arrival);
    m.service += s.service;
  }
  for (std::uint32_t id = 0; id < summary.members.size(); ++id) {
    MemberSummary& m = summary.members[id];
    m.id = id;
    if (m.requests > 0) m.first_token_mean_s /= static_cast<double>(m.requests);
  }
}

// What both kinds of summary share.
void add_served(Summary& summary, std::span<const Served> served, std::uint64_t tokens) {
  std::vector<double> first, completion;
  Duration end{};
  for (const Served& s : served) {
    first.push_back(in_seconds(s.first_output - s.arrival));
    completion.push_back(in_seconds(s.end - s.arrival));
    end = std::max(end, s.end);
  }
  summary.requests = served.size();
  summary.first_token_s = quantiles(first);
  summary.completion_s = quantiles(completion);
  summary.service_difference = service_difference(served);
  if (end > Duration{}) summary.throughput_tokens_s = static_cast<double>(tokens) / in_seconds(end);
  add_members(summary, served);
}

void add_classes(Summary& summary, const Simulation& simulation,
                 const std::vector<sched::ClassSpec>& classes) {
  for (std::uint32_t c = 0; c < classes.size(); ++c) {
    ClassSummary cls;
    cls.name = classes[c].name;
    std::vector<double> first, completion;
    for (const JobRecord& j : simulation.jobs) {
      if (j.cls != c || j.rejected || j.first_output < Duration{}) continue;
      ++cls.requests;
      first.push_back(in_seconds(j.first_output - j.arrival));
      completion.push_back(in_seconds(j.end - j.arrival));
      cls.longest_wait_s = std::max(cls.longest_wait_s, in_seconds(j.started - j.arrival));
      const Duration target = classes[c].first_target;
      if (target > Duration{} && j.first_output - j.arrival > target) ++cls.deadline_misses;
    }
    cls.first_token_s = quantiles(first);
    cls.completion_s = quantiles(completion);
    if (cls.requests > 0) summary.classes.push_back(std::move(cls));
  }
}

void add_estimates(Summary& summary, const Simulation& simulation) {
  std::vector<double> waits, errors;
  for (const JobRecord& j : simulation.jobs) {
    if (j.estimate < Duration{} || j.started < Duration{}) continue;
    waits.push_back(in_seconds(j.started - j.arrival));
    errors.push_back(std::abs(in_seconds(j.started - j.arrival - j.estimate)));
  }
  summary.told_wait_s = quantiles(waits);
  summary.estimate_error_s = quantiles(errors);
}

}  // namespace

Summary summarise(const Simulation& simulation, const Workload& workload,
                  const std::vector<sched::ClassSpec>& classes) {
  Summary summary;
  summary.policy = simulation.policy;
  std::vector<Served> served;
  std::uint64_t tokens = 0;
  for (const JobRecord& j : simulation.jobs) {
    if (j.rejected || j.first_output < Duration{}) {
      ++summary.rejected;
      continue;
    }
    served.push_back({.arrival = j.arrival,
                      .started = j.started,
                      .first_output = j.first_output,
                      .end = j.end,
                      .member = j.member,
                      .service = token_service(j.prompt, j.output)});
    tokens += j.prompt + j.output;
    summary.longest_wait_s = std::max(summary.longest_wait_s, in_seconds(j.started - j.arrival));
  }
  add_served(summary, served, tokens);
  for (const JobRecord& j : simulation.jobs) {
    if (j.member < summary.members.size())
      summary.members[j.member].device_seconds += static_cast<double>(j.device_ns) * 1e-9;
  }
  summary.jain = backlogged_jain(served, workload.weights);
  summary.gap_p50_s = in_seconds(simulation.gaps.quantile(0.5));
  summary.gap_p99_s = in_seconds(simulation.gaps.quantile(0.99));
  summary.gap_p999_s = in_seconds(simulation.gaps.quantile(0.999));
  summary.longest_step_s = in_seconds(simulation.longest_step);
  if (simulation.length > Duration{})
    summary.busy = in_seconds(simulation.busy) / in_seconds(simulation.length);
  summary.events = simulation.events;
  summary.steps = simulation.steps;
  add_classes(summary, simulation, classes);
  add_estimates(summary, simulation);
  return summary;
}

Summary summarise(const Published& published, const Workload& workload) {
  Summary summary;
  summary.policy = published.policy + " (published)";
  std::vector<Served> served;
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < workload.arrivals.size(); ++i) {
    const Arrival& a = workload.arrivals[i];
    if (published.first_output[i] < Duration{} || published.completion[i] < Duration{}) {
      ++summary.rejected;
      continue;
    }
    served.push_back({.arrival = a.at,
                      .started = a.at + published.first_output[i],  // Not told; a little later.
                      .first_output = a.at + published.first_output[i],
                      .end = a.at + published.completion[i],
                      .member = a.member,
                      .service = token_service(a.prompt, a.output)});
    tokens += a.prompt + a.output;
  }
  add_served(summary, served, tokens);
  return summary;
}

}  // namespace lares::sim
