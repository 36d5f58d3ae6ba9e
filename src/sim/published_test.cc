// The simulator held against what others published: bench/traces.
#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "sim/report.h"

namespace lares::sim {
namespace {

Trace trace(const std::string& name) {
  std::ifstream file(std::string(LARES_SOURCE_DIR) + "/bench/traces/vtc/" + name + ".csv");
  std::stringstream text;
  text << file.rdbuf();
  return *read_trace(text.str(), name);
}

Summary simulated(const Trace& trace, const std::string& policy) {
  SimulateOptions options;
  options.scheduler.policy = policy;
  options.scheduler.jobs_max = static_cast<std::uint32_t>(trace.workload.arrivals.size());
  options.scheduler.running_max = 256;
  options.scheduler.classes = {{.name = "all", .longest_wait = std::chrono::hours(24)}};
  const auto device = *find_device("a10g-llama2-7b");
  options.scheduler.slice = device.slice;
  options.scheduler.slice_alone = device.slice_alone;
  return summarise(*simulate(trace.workload, device, options), trace.workload,
                   options.scheduler.classes);
}

const Published& published(const Trace& trace, const std::string& policy) {
  return *std::ranges::find(trace.published, policy, &Published::policy);
}

// The figures that the trace's readme gives, computed from the authors' raw responses.
TEST(Published, ServiceDifferenceIsComputedAsItWas) {
  struct Row {
    const char* name;
    double fcfs, fcfs_max, vtc, vtc_max;
  };
  for (const Row& row : {Row{"real", 413.1, 830.0, 237.9, 467.0},
                         Row{"on_off_overload", 425.0, 1317.2, 116.4, 229.5},
                         Row{"on_off_less", 116.6, 361.0, 55.4, 72.6},
                         Row{"proportional", 144.5, 160.8, 10.6, 92.7}}) {
    const Trace t = trace(row.name);
    const auto fcfs = summarise(published(t, "fcfs"), t.workload).service_difference;
    const auto vtc = summarise(published(t, "vtc"), t.workload).service_difference;
    EXPECT_NEAR(fcfs.average, row.fcfs, 0.2) << row.name;
    EXPECT_NEAR(fcfs.largest, row.fcfs_max, 0.5) << row.name;
    EXPECT_NEAR(vtc.average, row.vtc, 0.2) << row.name;
    EXPECT_NEAR(vtc.largest, row.vtc_max, 0.5) << row.name;
  }
}

double off(double ours, double theirs) {
  return std::abs(ours / theirs - 1);
}

TEST(Published, TheModelOfThatServerComesWithinItsBars) {
  for (const char* name :
       {"real", "proportional", "on_off_overload", "on_off_less", "overload_multi"}) {
    const Trace t = trace(name);
    for (const auto& [ours, theirs] : {std::pair("orca", "fcfs"), std::pair("vtc", "vtc")}) {
      const Summary model = simulated(t, ours);
      const Summary real = summarise(published(t, theirs), t.workload);
      EXPECT_LE(off(model.throughput_tokens_s, real.throughput_tokens_s), 0.03) << name << ours;
      EXPECT_LE(off(model.first_token_s.p50, real.first_token_s.p50), 0.14) << name << ours;
      EXPECT_LE(off(model.first_token_s.p99, real.first_token_s.p99), 0.12) << name << ours;
      const double bar = std::string(theirs) == "fcfs" ? 0.10 : 0.35;
      EXPECT_LE(off(model.service_difference.average, real.service_difference.average), bar)
          << name << ours;
    }
  }
}

TEST(Published, LaresIsFairerThanVtcAndQuickerForWhoAsksLittle) {
  const Trace t = trace("real");
  const Summary lares = simulated(t, "lares"), vtc = simulated(t, "vtc");
  EXPECT_GE(lares.throughput_tokens_s, 0.97 * vtc.throughput_tokens_s);
  EXPECT_LT(lares.service_difference.average, vtc.service_difference.average);
  const auto light = [](const Summary& s) {
    auto members = s.members;
    std::ranges::sort(members, {}, &MemberSummary::requests);
    double sum = 0, requests = 0;
    for (std::size_t i = 0; i < members.size() / 2; ++i) {
      sum += members[i].first_token_mean_s * static_cast<double>(members[i].requests);
      requests += static_cast<double>(members[i].requests);
    }
    return sum / requests;
  };
  EXPECT_LT(light(lares), light(vtc));
}

}  // namespace
}  // namespace lares::sim
