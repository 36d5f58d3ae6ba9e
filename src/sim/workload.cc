#include "sim/workload.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <span>

#include <fmt/format.h>

#include "core/hash.h"

namespace lares::sim {
namespace {

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t end = std::min(line.find(','), line.size());
    fields.push_back(line.substr(0, end));
    if (end == line.size()) return fields;
    line.remove_prefix(end + 1);
  }
}

template <class T>
bool read(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

Duration from_seconds(double seconds) {
  return Duration(static_cast<Duration::rep>(std::llround(seconds * 1e9)));
}

// "2023-11-16 18:17:03.9799600" -> seconds since that month began.
bool read_timestamp(std::string_view text, double& seconds) {
  if (text.size() < 19) return false;
  unsigned day = 0, hour = 0, minute = 0;
  double second = 0;
  if (!read(text.substr(8, 2), day) || !read(text.substr(11, 2), hour) ||
      !read(text.substr(14, 2), minute) || !read(text.substr(17), second))
    return false;
  seconds = ((day * 24.0 + hour) * 60.0 + minute) * 60.0 + second;
  return true;
}

struct Columns {
  std::size_t arrival = 0, user = 1, prompt = 2, output = 3;
  bool timestamps = false;
  std::vector<std::pair<std::size_t, std::size_t>> published;  // First token, latency.
};

bool read_published(std::span<const std::string_view> fields, const Columns& columns,
                    Trace& trace) {
  for (std::size_t i = 0; i < columns.published.size(); ++i) {
    const auto value = [&](std::size_t column, std::vector<Duration>& out) {
      double seconds = -1;
      const bool empty = column >= fields.size() || fields[column].empty();
      if (!empty && !read(fields[column], seconds)) return false;
      out.push_back(from_seconds(seconds));
      return true;
    };
    Published& published = trace.published[i];
    if (!value(columns.published[i].first, published.first_output) ||
        !value(columns.published[i].second, published.completion))
      return false;
  }
  return true;
}

bool read_line(std::string_view line, const Columns& columns, double& start, Trace& trace) {
  const auto fields = split(line);
  double seconds = 0;
  Arrival a;
  if (columns.timestamps) {
    if (fields.size() < 3 || !read_timestamp(fields[0], seconds)) return false;
    if (!read(fields[1], a.prompt) || !read(fields[2], a.output)) return false;
    if (trace.workload.arrivals.empty()) start = seconds;
    seconds -= start;
  } else {
    if (fields.size() < 4 || !read(fields[columns.arrival], seconds) ||
        !read(fields[columns.user], a.member) || !read(fields[columns.prompt], a.prompt) ||
        !read(fields[columns.output], a.output) || !read_published(fields, columns, trace))
      return false;
  }
  a.at = from_seconds(seconds);
  a.prompt = std::max(a.prompt, 1U);
  a.output = a.output_max = std::max(a.output, 1U);
  trace.workload.arrivals.push_back(a);
  return a.member < 100000 && a.at >= Duration{};
}

// A number in [0, 1) from the counter's bits.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  double next() {
    state_ = mix64(state_ + 1);
    return static_cast<double>(state_ >> 11U) * 0x1.0p-53;
  }
  std::uint32_t around(std::uint32_t middle, std::uint32_t spread) {
    const double low = static_cast<double>(middle) - spread;
    return static_cast<std::uint32_t>(std::max(1.0, low + next() * (2.0 * spread + 1)));
  }

 private:
  std::uint64_t state_;
};

bool is_on(const Source& source, Duration at) {
  if (source.off == Duration{}) return true;
  return (at - source.from) % (source.on + source.off) < source.on;
}

}  // namespace

Result<Trace> read_trace(std::string_view csv, std::string name) {
  Trace trace;
  trace.workload.name = std::move(name);
  Columns columns;
  double start = 0;
  for (std::size_t number = 1; !csv.empty(); ++number) {
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (number == 1) {
      const auto header = split(line);
      columns.timestamps = line.starts_with("TIMESTAMP,ContextTokens,GeneratedTokens");
      if (!columns.timestamps && !line.starts_with("arrival_s,user,prompt_tokens,output_tokens"))
        return fail(Code::Corrupt,
                    fmt::format("{}: the first line must be `arrival_s,user,prompt_tokens,"
                                "output_tokens` or `TIMESTAMP,ContextTokens,GeneratedTokens`",
                                trace.workload.name));
      for (std::size_t i = 4; i + 1 < header.size(); i += 2) {
        columns.published.emplace_back(i, i + 1);
        trace.published.push_back({std::string(header[i].substr(0, header[i].find('_'))), {}, {}});
      }
      continue;
    }
    if (!read_line(line, columns, start, trace))
      return fail(Code::Corrupt,
                  fmt::format("{}, line {}: cannot be read", trace.workload.name, number));
  }
  if (!std::ranges::is_sorted(trace.workload.arrivals, {}, &Arrival::at))
    return fail(Code::Corrupt,
                fmt::format("{}: arrivals must be in order of time", trace.workload.name));
  return trace;
}

Workload repeated(const Workload& workload, std::uint32_t times) {
  Workload result = workload;
  const Duration length = workload.arrivals.empty()
                              ? Duration{}
                              : workload.arrivals.back().at + std::chrono::milliseconds(1);
  for (std::uint32_t i = 1; i < times; ++i) {
    for (Arrival a : workload.arrivals) {
      a.at += length * i;
      result.arrivals.push_back(a);
    }
  }
  return result;
}

Workload with_rate(const Workload& workload, std::uint32_t factor) {
  Workload result = workload;
  for (Arrival& a : result.arrivals) a.at = Duration(a.at.count() / factor * 1000);
  return result;
}

Workload generate(std::string name, const std::vector<Source>& sources, Duration length,
                  std::uint64_t seed) {
  Workload result;
  result.name = std::move(name);
  std::map<std::string, std::uint32_t> members;
  std::uint64_t task = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    const auto member =
        members.try_emplace(source.member, static_cast<std::uint32_t>(members.size()))
            .first->second;
    result.weights.resize(members.size(), 1000);
    result.weights[member] = source.weight;
    Random random(hash_combine(seed, i));
    const double mean = 60e9 * source.burst / std::max(source.per_minute, 1U);
    const Duration until = source.until == Duration{} ? length : std::min(source.until, length);
    Duration at = source.from;
    for (;;) {
      const double wait = source.poisson ? -std::log(1 - random.next()) * mean : mean;
      at += Duration(static_cast<Duration::rep>(wait) + 1);
      if (at >= until) break;
      if (!is_on(source, at)) continue;
      if (source.burst > 1) ++task;
      for (std::uint32_t b = 0; b < source.burst; ++b) {
        Arrival a{.at = at, .member = member, .cls = source.cls};
        a.task = source.burst > 1 ? task : 0;
        a.prompt = random.around(source.prompt, source.prompt_spread);
        a.output = a.output_max = random.around(source.output, source.output_spread);
        result.arrivals.push_back(a);
      }
    }
  }
  std::ranges::stable_sort(result.arrivals, {}, &Arrival::at);
  return result;
}

}  // namespace lares::sim
