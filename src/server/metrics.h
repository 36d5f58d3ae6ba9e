// A registry of counters, gauges and fixed-bucket histograms, and its Prometheus text form.
//
// Updating is lock-free, from any thread; series are created up front or on first use of a label
// set (then a mutex). References stay valid for the registry's life. Asking for a name again with
// another type is a bug.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lares::server {

class Counter {
 public:
  void add(double amount = 1);
  [[nodiscard]] double value() const;

 private:
  std::atomic<double> value_{0};
};

class Gauge {
 public:
  void set(double value);
  void add(double amount);
  [[nodiscard]] double value() const;

 private:
  std::atomic<double> value_{0};
};

class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);
  void observe(double value);
  [[nodiscard]] std::vector<std::uint64_t> cumulative() const;  // One per bound, then +Inf.
  [[nodiscard]] double sum() const;
  [[nodiscard]] std::span<const double> bounds() const;

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<std::uint64_t>> counts_;
  std::atomic<double> sum_{0};
};

// Label sets are written as they appear in the text form: `model="starter-chat",class="chat"`.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  Counter& counter(std::string_view name, std::string_view help, std::string_view labels = "");
  Gauge& gauge(std::string_view name, std::string_view help, std::string_view labels = "");
  Histogram& histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                       std::string_view labels = "");
  // The text exposition format 0.0.4, families in the order of their names.
  [[nodiscard]] std::string text() const;

 private:
  struct Family;
  Family& family(std::string_view name, std::string_view help, std::string_view type);

  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Family>, std::less<>> families_;
};

// One label, its value escaped: label("model", "a\"b") -> model="a\"b".
std::string label(std::string_view name, std::string_view value);

// Buckets of OpenTelemetry's gen_ai.server.request.duration, time_to_first_token and
// time_per_output_token, in seconds (semantic conventions 1.30, gen-ai-metrics).
extern const std::array<double, 14> kRequestDurationBuckets;
extern const std::array<double, 16> kTimeToFirstTokenBuckets;
extern const std::array<double, 13> kTimePerTokenBuckets;

}  // namespace lares::server
