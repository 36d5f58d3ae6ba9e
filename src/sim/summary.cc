#include <algorithm>
#include <cmath>

#include "sim/report.h"

namespace lares::sim {
namespace {

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

Quantiles quantiles(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return {.p50 = quantile(values, 0.5),
          .p99 = quantile(values, 0.99),
          .mean = values.empty() ? 0 : sum / static_cast<double>(values.size())};
}

std::uint32_t weight_of(const Workload& workload, std::uint32_t member) {
  return member < workload.weights.size() ? workload.weights[member] : 1000;
}

// A member is backlogged in a second if some request of its waits through all of it.
double mean_jain(std::span<const Served> served, std::span<const JobRecord> jobs,
                 const Workload& workload) {
  constexpr std::size_t kWindow = 60;
  std::size_t length = 0;
  std::uint32_t members = 0;
  for (const Served& s : served) {
    length = std::max(length, static_cast<std::size_t>(std::ceil(seconds(s.end))) + 1);
    members = std::max(members, s.member + 1);
  }
  std::vector<std::vector<double>> service(members, std::vector<double>(length + 1));
  std::vector<std::vector<std::uint32_t>> waiting(members, std::vector<std::uint32_t>(length + 1));
  for (const Served& s : served) {
    const double from = seconds(s.first_output), to = std::max(seconds(s.end), from + 1e-6);
    for (auto t = static_cast<std::size_t>(from); t < length && static_cast<double>(t) < to; ++t) {
      const double low = std::max(from, static_cast<double>(t));
      const double high = std::min(to, static_cast<double>(t + 1));
      service[s.member][t] += s.service * (high - low) / (to - from);
    }
  }
  for (const JobRecord& j : jobs) {
    if (j.started < Duration{}) continue;
    const auto from = static_cast<std::size_t>(std::ceil(seconds(j.arrival)));
    const auto to = static_cast<std::size_t>(seconds(j.started));
    for (std::size_t t = from; t < std::min(to, length); ++t) ++waiting[j.member][t];
  }
  double sum = 0;
  std::size_t windows = 0;
  for (std::size_t t = 0; t + kWindow <= length; t += kWindow / 4) {
    std::vector<double> shares;
    for (std::uint32_t m = 0; m < members; ++m) {
      const auto first = waiting[m].begin() + static_cast<std::ptrdiff_t>(t);
      if (std::count(first, first + kWindow, 0U) > 0) continue;
      double share = 0;
      for (std::size_t i = t; i < t + kWindow; ++i) share += service[m][i];
      shares.push_back(share / weight_of(workload, m));
    }
    if (shares.size() < 2) continue;
    sum += jain_index(shares);
    ++windows;
  }
  return windows > 0 ? sum / static_cast<double>(windows) : 1;
}

void add_members(Summary& summary, std::span<const Served> served) {
  for (const Served& s : served) {
    if (summary.members.size() <= s.member) summary.members.resize(s.member + 1);
    MemberSummary& m = summary.members[s.member];
    ++m.requests;
    m.first_token_mean_s += seconds(s.first_output - s.arrival);
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
    first.push_back(seconds(s.first_output - s.arrival));
    completion.push_back(seconds(s.end - s.arrival));
    end = std::max(end, s.end);
  }
  summary.requests = served.size();
  summary.first_token_s = quantiles(first);
  summary.completion_s = quantiles(completion);
  summary.service_difference = service_difference(served);
  if (end > Duration{}) summary.throughput_tokens_s = static_cast<double>(tokens) / seconds(end);
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
      first.push_back(seconds(j.first_output - j.arrival));
      completion.push_back(seconds(j.end - j.arrival));
      cls.longest_wait_s = std::max(cls.longest_wait_s, seconds(j.started - j.arrival));
      const Duration target = classes[c].first_target;
      if (target > Duration{} && j.first_output - j.arrival > target) ++cls.deadline_misses;
    }
    cls.first_token_s = quantiles(first);
    cls.completion_s = quantiles(completion);
    if (cls.requests > 0) summary.classes.push_back(std::move(cls));
  }
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
    served.push_back(
        {j.arrival, j.first_output, j.end, j.member, token_service(j.prompt, j.output)});
    tokens += j.prompt + j.output;
    summary.longest_wait_s = std::max(summary.longest_wait_s, seconds(j.started - j.arrival));
  }
  add_served(summary, served, tokens);
  for (const JobRecord& j : simulation.jobs) {
    if (j.member < summary.members.size())
      summary.members[j.member].device_seconds += static_cast<double>(j.device_ns) * 1e-9;
  }
  summary.jain = mean_jain(served, simulation.jobs, workload);
  summary.gap_p50_s = seconds(simulation.gaps.quantile(0.5));
  summary.gap_p99_s = seconds(simulation.gaps.quantile(0.99));
  summary.gap_p999_s = seconds(simulation.gaps.quantile(0.999));
  summary.longest_step_s = seconds(simulation.longest_step);
  if (simulation.length > Duration{})
    summary.busy = seconds(simulation.busy) / seconds(simulation.length);
  summary.events = simulation.events;
  summary.steps = simulation.steps;
  add_classes(summary, simulation, classes);
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
    served.push_back({a.at, a.at + published.first_output[i], a.at + published.completion[i],
                      a.member, token_service(a.prompt, a.output)});
    tokens += a.prompt + a.output;
  }
  add_served(summary, served, tokens);
  return summary;
}

}  // namespace lares::sim
