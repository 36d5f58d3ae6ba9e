#include "app/bench_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "app/table.h"
#include "core/text.h"
#include "sim/plot.h"

namespace lares::app {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double most(const std::vector<double>& values) {
  return values.empty() ? kNan : *std::ranges::max_element(values);
}

double per_second(double amount, Duration time) {
  return time > Duration{} ? amount / in_seconds(time) : 0;
}

// What was delivered before requests stopped being sent: what drains afterwards favours nobody.
double service_of(const BenchRecord& record, Duration length) {
  if (!record.error.empty() || record.pieces.empty()) return 0;
  const auto in_time = std::ranges::upper_bound(record.pieces, length) - record.pieces.begin();
  return (record.pieces.front() <= length ? record.prompt : 0) + 2 * static_cast<double>(in_time);
}

struct Times {
  std::vector<double> first, gaps, done;
  double output = 0, service = 0;
};

void add(const BenchRecord& record, Duration length, BenchRow& row, Times& times) {
  ++row.sent;
  if (!record.error.empty()) ++row.errors;
  times.service += service_of(record, length);
  if (!record.done || !record.error.empty()) return;
  ++row.ok;
  times.output += static_cast<double>(record.output > 0 ? record.output : record.pieces.size());
  times.done.push_back(in_seconds(*record.done - record.sent));
  if (record.pieces.empty()) return;
  times.first.push_back(in_seconds(record.pieces.front() - record.sent));
  for (std::size_t i = 1; i < record.pieces.size(); ++i)
    times.gaps.push_back(in_seconds(record.pieces[i] - record.pieces[i - 1]));
}

void finish(BenchRow& row, const Times& times, const BenchRun& run) {
  double sum = 0;
  for (const double first : times.first) sum += first;
  row.first_mean = times.first.empty() ? kNan : sum / static_cast<double>(times.first.size());
  row.first_p50 = bench_percentile(times.first, 0.5);
  row.first_p95 = bench_percentile(times.first, 0.95);
  row.first_max = most(times.first);
  row.gap_p50 = bench_percentile(times.gaps, 0.5);
  row.gap_p99 = bench_percentile(times.gaps, 0.99);
  row.gap_max = most(times.gaps);
  row.done_p50 = bench_percentile(times.done, 0.5);
  row.output_s = per_second(times.output, run.wall);
  row.service_s = per_second(times.service, std::min(run.length, run.wall));
}

// A figure in a table; what nothing came of is a dash.
std::string shown(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
}

std::string json(const BenchRow& row) {
  return fmt::format(
      R"({{"member":{},"class":{},"sent":{},"ok":{},"errors":{},"ttft_mean":{},"ttft_p50":{},)"
      R"("ttft_p95":{},"ttft_max":{},"itl_p50":{},"itl_p99":{},"itl_max":{},"e2e_p50":{},)"
      R"("out_tok_s":{},"service_s":{}}})",
      json_quoted(row.member), json_quoted(row.cls), row.sent, row.ok, row.errors,
      number(row.first_mean), number(row.first_p50), number(row.first_p95), number(row.first_max),
      number(row.gap_p50), number(row.gap_p99), number(row.gap_max), number(row.done_p50),
      number(row.output_s), number(row.service_s));
}

std::string json(const BenchRun& run) {
  const BenchSummary summary = summarise(run);
  std::string rows;
  for (const BenchRow& row : summary.rows)
    rows += (rows.empty() ? "\n    " : ",\n    ") + json(row);
  return fmt::format(R"({{"scenario":{},"seconds":{},"wall_s":{},"interrupted":{},"out_tok_s":{},)"
                     R"("service_s":{},"jain":{},"first_error":{},"rows":[{}]}})",
                     json_quoted(run.scenario), number(in_seconds(run.length)),
                     number(in_seconds(run.wall)), run.interrupted, number(summary.output_s),
                     number(summary.service_s), number(summary.jain),
                     summary.error.empty() ? "null" : json_quoted(summary.error), rows);
}

// Of voice where there is some, else of chat, else of everything.
std::vector<double> first_tokens(const BenchRun& run) {
  for (const std::string_view cls : {"voice", "chat", ""}) {
    std::vector<double> first;
    for (const BenchRecord& r : run.records) {
      if (r.done && r.error.empty() && !r.pieces.empty() && (cls.empty() || r.cls == cls))
        first.push_back(in_seconds(r.pieces.front() - r.sent));
    }
    if (!first.empty()) return first;
  }
  return {};
}

sim::PlotPanel panel_of(const BenchRun& run) {
  sim::PlotPanel panel{.title = run.scenario, .seconds = in_seconds(run.wall)};
  const double length = std::max(panel.seconds, 1e-9);
  std::map<std::string, std::vector<double>> lines;
  for (const BenchRecord& record : run.records) {
    auto& counts = lines[record.member];
    counts.resize(sim::kPlotPoints + 1);
    for (const Duration at : record.pieces) {
      const double point = std::ceil(in_seconds(at) / length * sim::kPlotPoints);
      ++counts[std::min(static_cast<std::size_t>(point), sim::kPlotPoints)];
    }
  }
  for (auto& [member, counts] : lines) {
    for (std::size_t p = 1; p < counts.size(); ++p) counts[p] += counts[p - 1];
    panel.lines.push_back({member, std::move(counts)});
  }
  return panel;
}

}  // namespace

double bench_percentile(std::vector<double> values, double part) {
  if (values.empty()) return kNan;
  std::ranges::sort(values);
  const auto index = static_cast<std::size_t>(part * static_cast<double>(values.size()));
  return values[std::min(index, values.size() - 1)];
}

BenchSummary summarise(const BenchRun& run) {
  std::map<std::pair<std::string, std::string>, std::pair<BenchRow, Times>> groups;
  BenchSummary summary;
  for (const BenchRecord& record : run.records) {
    auto& [row, times] = groups[{record.member, record.cls}];
    row.member = record.member;
    row.cls = record.cls;
    add(record, run.length, row, times);
    if (summary.error.empty()) summary.error = record.error;
  }
  std::map<std::string, double> service;
  for (auto& [key, group] : groups) {
    finish(group.first, group.second, run);
    service[group.first.member] += group.first.service_s;
    summary.output_s += group.first.output_s;
    summary.service_s += group.first.service_s;
    summary.rows.push_back(group.first);
  }
  double squares = 0;
  for (const auto& [member, value] : service) squares += value * value;
  summary.jain = squares > 0 ? summary.service_s * summary.service_s /
                                   (static_cast<double>(service.size()) * squares)
                             : kNan;
  return summary;
}

std::string bench_table(const BenchRun& run, const BenchSummary& summary) {
  std::vector<std::vector<std::string>> rows{{"member", "class", "sent", "ok", "errors",
                                              "first p50", "p95", "max", "gap p50", "p99", "max",
                                              "done p50", "tokens/s", "service/s"}};
  for (const BenchRow& r : summary.rows) {
    rows.push_back({r.member, r.cls, fmt::format("{}", r.sent), fmt::format("{}", r.ok),
                    fmt::format("{}", r.errors), shown(r.first_p50, 3), shown(r.first_p95, 3),
                    shown(r.first_max, 3), shown(r.gap_p50, 3), shown(r.gap_p99, 3),
                    shown(r.gap_max, 3), shown(r.done_p50, 3), shown(r.output_s, 1),
                    shown(r.service_s, 1)});
  }
  std::string out = fmt::format("{}\n{}", run.scenario, aligned_table(rows, "llrrrrrrrrrrrr"));
  out +=
      fmt::format("{:.1f} s{}, output {} tokens/s, service {}/s, Jain's index of service {}\n",
                  in_seconds(run.wall), run.interrupted ? " (interrupted)" : "",
                  shown(summary.output_s, 1), shown(summary.service_s, 1), shown(summary.jain, 3));
  if (!summary.error.empty()) out += fmt::format("first error: {}\n", summary.error);
  return out;
}

std::string bench_markdown(std::span<const BenchRun> runs) {
  std::string out =
      "| scenario | output tokens/s | first token p95, s | longest gap, s | Jain | errors |\n"
      "|---|---|---|---|---|---|\n";
  for (const BenchRun& run : runs) {
    const BenchSummary summary = summarise(run);
    std::vector<double> gaps;
    std::uint64_t errors = 0;
    for (const BenchRow& row : summary.rows) {
      if (!std::isnan(row.gap_max)) gaps.push_back(row.gap_max);
      errors += row.errors;
    }
    out +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", run.scenario, shown(summary.output_s, 1),
                    shown(bench_percentile(first_tokens(run), 0.95), 2), shown(most(gaps), 2),
                    shown(summary.jain, 3), errors);
  }
  return out;
}

std::string bench_json(std::span<const BenchRun> runs, std::string_view url, std::uint64_t seed) {
  std::string list;
  for (const BenchRun& run : runs) list += (list.empty() ? "\n  " : ",\n  ") + json(run);
  return fmt::format("{{\"url\":{},\"seed\":{},\"runs\":[{}\n]}}\n", json_quoted(url), seed, list);
}

std::string bench_svg(std::span<const BenchRun> runs) {
  std::vector<sim::PlotPanel> panels;
  for (const BenchRun& run : runs) panels.push_back(panel_of(run));
  return sim::plot_svg("Pieces of text delivered over time, a line a member", panels);
}

}  // namespace lares::app
