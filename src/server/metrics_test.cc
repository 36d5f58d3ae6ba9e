#include "server/metrics.h"

#include <gtest/gtest.h>

#include <regex>
#include <thread>

namespace lares::server {
namespace {

TEST(Metrics, TextForm) {
  Metrics metrics;
  metrics.counter("b_total", "Counts \\ things\nhere.", label("model", "a\"b\\c\nd")).add(2);
  metrics.counter("b_total", "", label("model", "z")).add();
  metrics.gauge("a_now", "Now.").set(-1.5);
  const std::array<double, 2> bounds = {0.5, 1};
  Histogram& histogram = metrics.histogram("c_seconds", "Time.", bounds, label("route", "/"));
  histogram.observe(0.5);  // Inclusive.
  histogram.observe(0.75);
  histogram.observe(10);
  EXPECT_EQ(metrics.text(),
            "# HELP a_now Now.\n"
            "# TYPE a_now gauge\n"
            "a_now -1.5\n"
            "# HELP b_total Counts \\\\ things\\nhere.\n"
            "# TYPE b_total counter\n"
            "b_total{model=\"a\\\"b\\\\c\\nd\"} 2\n"
            "b_total{model=\"z\"} 1\n"
            "# HELP c_seconds Time.\n"
            "# TYPE c_seconds histogram\n"
            "c_seconds_bucket{route=\"/\",le=\"0.5\"} 1\n"
            "c_seconds_bucket{route=\"/\",le=\"1\"} 2\n"
            "c_seconds_bucket{route=\"/\",le=\"+Inf\"} 3\n"
            "c_seconds_sum{route=\"/\"} 11.25\n"
            "c_seconds_count{route=\"/\"} 3\n");
}

// Every line is a comment or `name{labels} value` as the format's grammar has it.
TEST(Metrics, EveryLineIsWellFormed) {
  Metrics metrics;
  metrics.histogram("gen_ai_server_request_duration_seconds", "x", kRequestDurationBuckets,
                    label("a", "1") + "," + label("b", "ü{}"));
  metrics.histogram("t", "x", kTimeToFirstTokenBuckets).observe(0.3);
  metrics.histogram("u", "x", kTimePerTokenBuckets).observe(1e-7);
  metrics.counter("large", "x").add(1e18);
  const std::regex line(
      R"re((# (HELP|TYPE) [a-zA-Z_:][a-zA-Z0-9_:]* .+)|([a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*"(,|(?=\})))+\})? (-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|[+-]Inf|NaN)))re");
  const std::string text = metrics.text();
  ASSERT_TRUE(text.ends_with('\n'));
  std::size_t lines = 0;
  for (std::size_t at = 0; at < text.size(); ++lines) {
    const std::size_t end = text.find('\n', at);
    const std::string one = text.substr(at, end - at);
    EXPECT_TRUE(std::regex_match(one, line)) << one;
    at = end + 1;
  }
  EXPECT_EQ(lines, 8U + 17 + 19 + 16 + 1);
}

TEST(Metrics, CountsFromManyThreads) {
  Metrics metrics;
  const std::array<double, 1> bounds = {1};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&metrics, &bounds] {
        for (int i = 0; i < 10000; ++i) {
          metrics.counter("c", "x").add();
          metrics.histogram("h", "x", bounds).observe(2);
        }
      });
    }
  }
  EXPECT_EQ(metrics.counter("c", "x").value(), 40000);
  EXPECT_EQ(metrics.histogram("h", "x", bounds).cumulative().back(), 40000U);
  EXPECT_EQ(metrics.histogram("h", "x", bounds).sum(), 80000);
}

}  // namespace
}  // namespace lares::server
