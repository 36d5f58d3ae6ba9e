// What a run of `lares bench` came to: a line for each member and class, as a table, JSON and SVG.
//
// Pure. Times are since the beginning of the run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace lares::app {

// One request and what came of it.
struct BenchRecord {
  std::string member, cls;
  Duration sent{};
  std::optional<Duration> done{};        // The answer was whole.
  std::vector<Duration> pieces{};        // When each piece of the text came.
  std::uint32_t prompt = 0, output = 0;  // As the server counts; 0: it did not say.
  std::string error{};                   // "" while nothing went wrong.
};

struct BenchRun {
  std::string scenario;
  Duration length{};  // Requests were sent until then.
  Duration wall{};    // And waited for until then.
  bool interrupted = false;
  std::vector<BenchRecord> records{};
};

// Of one member and class. Times in seconds; NaN where nothing came.
struct BenchRow {
  std::string member, cls;
  std::uint64_t sent = 0, ok = 0, errors = 0;
  double first_mean = 0, first_p50 = 0, first_p95 = 0, first_max = 0;
  double gap_p50 = 0, gap_p99 = 0, gap_max = 0;
  double done_p50 = 0;
  double output_s = 0;   // Tokens a second, until the last answer was whole.
  double service_s = 0;  // 1 x prompt + 2 x output tokens a second, while requests were sent.
};

struct BenchSummary {
  std::vector<BenchRow> rows;  // By member and class.
  double output_s = 0, service_s = 0;
  double jain = 0;      // Of service over members; NaN if nobody was served.
  std::string error{};  // The first one.
};

// The value at that part of the sorted values, none between two. NaN for none.
double bench_percentile(std::vector<double> values, double part);

BenchSummary summarise(const BenchRun& run);
// Lines for a terminal.
std::string bench_table(const BenchRun& run, const BenchSummary& summary);
// One line a run, in the form of BENCHMARKS.md.
std::string bench_markdown(std::span<const BenchRun> runs);
std::string bench_json(std::span<const BenchRun> runs, std::string_view url, std::uint64_t seed);
// Pieces delivered over time, a line a member, a panel a run.
std::string bench_svg(std::span<const BenchRun> runs);

}  // namespace lares::app
