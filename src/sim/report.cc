#include "sim/report.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"
#include "sim/plot.h"

namespace lares::sim {
namespace {

std::string json(const Quantiles& q) {
  return fmt::format(R"({{"p50":{:.6g},"p99":{:.6g},"mean":{:.6g}}})", q.p50, q.p99, q.mean);
}

std::string json(const MemberSummary& m) {
  return fmt::format(
      R"({{"id":{},"requests":{},"first_token_mean_s":{:.6g},"service":{:.9g},"device_s":{:.6g}}})",
      m.id, m.requests, m.first_token_mean_s, m.service, m.device_seconds);
}

std::string json(const ClassSummary& c) {
  return fmt::format(
      R"({{"name":{},"requests":{},"first_token_s":{},"completion_s":{},"longest_wait_s":{:.6g},)"
      R"("deadline_misses":{}}})",
      json_quoted(c.name), c.requests, json(c.first_token_s), json(c.completion_s),
      c.longest_wait_s, c.deadline_misses);
}

std::string json(const Summary& s);

template <class Items>
std::string json_list(const Items& items) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() > 1 ? "," : "") + json(item);
  return out + "]";
}

std::string json(const Summary& s) {
  return fmt::format(
      R"({{"name":{},"throughput_tokens_s":{:.6g},)"
      R"("service_difference":{{"avg":{:.6g},"max":{:.6g}}},)"
      R"("jain":{:.6g},"first_token_s":{},"completion_s":{},)"
      R"("gap_s":{{"p50":{:.6g},"p99":{:.6g},"p999":{:.6g}}},)"
      R"("longest_wait_s":{:.6g},"longest_step_s":{:.6g},"busy":{:.6g},)"
      R"("requests":{},"rejected":{},"events":{},"steps":{},"members":{},"classes":{}}})",
      json_quoted(s.policy), s.throughput_tokens_s, s.service_difference.average,
      s.service_difference.largest, s.jain, json(s.first_token_s), json(s.completion_s),
      s.gap_p50_s, s.gap_p99_s, s.gap_p999_s, s.longest_wait_s, s.longest_step_s, s.busy,
      s.requests, s.rejected, s.events, s.steps, json_list(s.members), json_list(s.classes));
}

// Cumulated service of one member at kPlotPoints + 1 times.
std::vector<double> served_over_time(const Simulation& simulation, std::uint32_t member) {
  std::vector<double> sums(kPlotPoints + 1);
  const double length = std::max(in_seconds(simulation.length), 1e-9);
  for (const JobRecord& j : simulation.jobs) {
    if (j.member != member || j.first_output < Duration{}) continue;
    const double from = in_seconds(j.first_output) / length * kPlotPoints;
    const double to = std::max(in_seconds(j.end) / length * kPlotPoints, from + 1e-9);
    for (auto p = static_cast<std::size_t>(from); p <= kPlotPoints; ++p) {
      const double part = std::clamp((static_cast<double>(p) - from) / (to - from), 0.0, 1.0);
      sums[p] += part * token_service(j.prompt, j.output);
    }
  }
  return sums;
}

PlotPanel panel_of(const Simulation& simulation) {
  PlotPanel panel{.title = simulation.policy, .seconds = in_seconds(simulation.length)};
  std::uint32_t members = 0;
  for (const JobRecord& j : simulation.jobs) members = std::max(members, j.member + 1);
  for (std::uint32_t m = 0; m < members; ++m)
    panel.lines.push_back({fmt::format("member {}", m), served_over_time(simulation, m)});
  return panel;
}

}  // namespace

std::string to_table(std::span<const Summary> summaries) {
  std::string out =
      fmt::format("{:<18} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>6}\n", "policy",
                  "tokens/s", "first50", "first99", "gap50", "gap99.9", "done50", "wait max",
                  "diff avg", "diff max", "Jain");
  for (const Summary& s : summaries) {
    out += fmt::format(
        "{:<18} {:>9.1f} {:>7.2f}s {:>7.2f}s {:>6.0f}ms {:>6.0f}ms {:>7.2f}s {:>7.2f}s {:>9.1f} "
        "{:>9.1f} {:>6.3f}\n",
        s.policy, s.throughput_tokens_s, s.first_token_s.p50, s.first_token_s.p99,
        s.gap_p50_s * 1e3, s.gap_p999_s * 1e3, s.completion_s.p50, s.longest_wait_s,
        s.service_difference.average, s.service_difference.largest, s.jain);
  }
  for (const Summary& s : summaries) {
    if (s.told_wait_s.p99 == 0) continue;
    out += fmt::format(
        "{:<18} told how long they wait: waited p50 {:.2f} s p99 {:.2f} s, off by p50 {:.2f} s p99 "
        "{:.2f} s\n",
        s.policy, s.told_wait_s.p50, s.told_wait_s.p99, s.estimate_error_s.p50,
        s.estimate_error_s.p99);
  }
  for (const Summary& s : summaries) {
    if (s.classes.size() < 2) continue;
    for (const ClassSummary& c : s.classes) {
      out += fmt::format(
          "{:<10} {:<12} {:>6} requests, first p50 {:.3f} s p99 {:.3f} s, done p50 {:.2f} s, "
          "longest wait {:.2f} s, {} late\n",
          s.policy, c.name, c.requests, c.first_token_s.p50, c.first_token_s.p99,
          c.completion_s.p50, c.longest_wait_s, c.deadline_misses);
    }
  }
  return out;
}

std::string to_json(std::span<const Summary> summaries, const std::string& trace,
                    const SimulatedDevice& device) {
  return fmt::format("{{\"trace\":{},\"device\":{},\"device_about\":{},\"policies\":{}}}\n",
                     json_quoted(trace), json_quoted(device.name), json_quoted(device.about),
                     json_list(summaries));
}

std::string to_csv(std::span<const Summary> summaries) {
  std::string out =
      "policy,requests,rejected,throughput_tokens_s,first_token_p50_s,first_token_p99_s,"
      "first_token_mean_s,gap_p50_s,gap_p99_s,gap_p999_s,completion_p50_s,completion_p99_s,"
      "service_difference_avg,service_difference_max,jain,longest_wait_s,steps,events\n";
  for (const Summary& s : summaries) {
    out += fmt::format(
        "{},{},{},{:.3f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},"
        "{:.3f},{:.3f},{:.5f},{:.6f},{},{}\n",
        s.policy, s.requests, s.rejected, s.throughput_tokens_s, s.first_token_s.p50,
        s.first_token_s.p99, s.first_token_s.mean, s.gap_p50_s, s.gap_p99_s, s.gap_p999_s,
        s.completion_s.p50, s.completion_s.p99, s.service_difference.average,
        s.service_difference.largest, s.jain, s.longest_wait_s, s.steps, s.events);
  }
  return out;
}

std::string to_svg(std::span<const Simulation> simulations, const std::string& title) {
  std::vector<PlotPanel> panels;
  for (const Simulation& simulation : simulations) panels.push_back(panel_of(simulation));
  return plot_svg("Served cost over time, a line a member: " + title, panels);
}

}  // namespace lares::sim
