#include "server/metrics.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/assert.h"

namespace lares::server {
namespace {

// As Prometheus reads numbers: Go's ParseFloat, with these names for what is not finite.
void append_value(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

void append_series(std::string& out, std::string_view name, std::string_view labels, double value) {
  out += name;
  if (!labels.empty()) fmt::format_to(std::back_inserter(out), "{{{}}}", labels);
  out += ' ';
  append_value(out, value);
  out += '\n';
}

void append_histogram(std::string& out, std::string_view name, std::string_view labels,
                      const Histogram& histogram) {
  const std::vector<std::uint64_t> counts = histogram.cumulative();
  const std::string bucket = fmt::format("{}_bucket", name);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::string le(labels);
    if (!le.empty()) le += ',';
    le += "le=\"";
    if (i < histogram.bounds().size()) {
      append_value(le, histogram.bounds()[i]);
    } else {
      le += "+Inf";
    }
    le += '"';
    append_series(out, bucket, le, static_cast<double>(counts[i]));
  }
  append_series(out, fmt::format("{}_sum", name), labels, histogram.sum());
  append_series(out, fmt::format("{}_count", name), labels, static_cast<double>(counts.back()));
}

// A help text may hold anything but a line's end and a lone backslash.
std::string escaped_help(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

// NOLINTBEGIN(readability-magic-numbers)
const std::array<double, 14> kRequestDurationBuckets = {
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92};
const std::array<double, 16> kTimeToFirstTokenBuckets = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0};
const std::array<double, 13> kTimePerTokenBuckets = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                                     0.3,  0.4,   0.5,  0.75,  1.0, 2.5};
// NOLINTEND(readability-magic-numbers)

void Counter::add(double amount) {
  LARES_ASSERT(amount >= 0, "a counter only grows: {}", amount);
  value_.fetch_add(amount, std::memory_order_relaxed);
}
double Counter::value() const {
  return value_.load(std::memory_order_relaxed);
}

void Gauge::set(double value) {
  value_.store(value, std::memory_order_relaxed);
}
void Gauge::add(double amount) {
  value_.fetch_add(amount, std::memory_order_relaxed);
}
double Gauge::value() const {
  return value_.load(std::memory_order_relaxed);
}

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {
  LARES_ASSERT(std::is_sorted(bounds_.begin(), bounds_.end()), "{} bounds", bounds_.size());
}

void Histogram::observe(double value) {
  // The first bound that is not below the value: `le` is inclusive.
  const auto it = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  const auto index = static_cast<std::size_t>(it - bounds_.begin());
  counts_[index].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

std::vector<std::uint64_t> Histogram::cumulative() const {
  std::vector<std::uint64_t> out(counts_.size());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i].load(std::memory_order_relaxed);
    out[i] = total;
  }
  return out;
}

double Histogram::sum() const {
  return sum_.load(std::memory_order_relaxed);
}
std::span<const double> Histogram::bounds() const {
  return bounds_;
}

struct Metrics::Family {
  std::string help;
  std::string type;
  std::map<std::string, std::unique_ptr<Counter>, std::less<>> counters;
  std::map<std::string, std::unique_ptr<Gauge>, std::less<>> gauges;
  std::map<std::string, std::unique_ptr<Histogram>, std::less<>> histograms;
};

Metrics::Metrics() = default;
Metrics::~Metrics() = default;

Metrics::Family& Metrics::family(std::string_view name, std::string_view help,
                                 std::string_view type) {
  auto it = families_.find(name);
  if (it == families_.end()) {
    it = families_.emplace(std::string(name), std::make_unique<Family>()).first;
    it->second->help = help;
    it->second->type = type;
  }
  LARES_ASSERT(it->second->type == type, "{} is a {}, not a {}", name, it->second->type, type);
  return *it->second;
}

Counter& Metrics::counter(std::string_view name, std::string_view help, std::string_view labels) {
  const std::scoped_lock lock(mutex_);
  auto& series = family(name, help, "counter").counters[std::string(labels)];
  if (!series) series = std::make_unique<Counter>();
  return *series;
}

Gauge& Metrics::gauge(std::string_view name, std::string_view help, std::string_view labels) {
  const std::scoped_lock lock(mutex_);
  auto& series = family(name, help, "gauge").gauges[std::string(labels)];
  if (!series) series = std::make_unique<Gauge>();
  return *series;
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help,
                              std::span<const double> bounds, std::string_view labels) {
  const std::scoped_lock lock(mutex_);
  auto& series = family(name, help, "histogram").histograms[std::string(labels)];
  if (!series) series = std::make_unique<Histogram>(bounds);
  return *series;
}

std::string Metrics::text() const {
  const std::scoped_lock lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name,
                   escaped_help(family->help), name, family->type);
    for (const auto& [labels, series] : family->counters) {
      append_series(out, name, labels, series->value());
    }
    for (const auto& [labels, series] : family->gauges) {
      append_series(out, name, labels, series->value());
    }
    for (const auto& [labels, series] : family->histograms) {
      append_histogram(out, name, labels, *series);
    }
  }
  return out;
}

std::string label(std::string_view name, std::string_view value) {
  std::string out(name);
  out += "=\"";
  for (const char c : value) {
    switch (c) {
      case '\\': out += "\\\\"; break;
      case '"': out += "\\\""; break;
      case '\n': out += "\\n"; break;
      default: out += c;
    }
  }
  out += '"';
  return out;
}

}  // namespace lares::server
