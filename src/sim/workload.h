// What arrives when: from published traces, or made up from a few numbers. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/types.h"

namespace lares::sim {

struct Arrival {
  Duration at{};  // Since the start.
  std::uint32_t member = 0;
  std::uint32_t cls = 0;     // Index into the scheduler's classes.
  std::uint64_t task = 0;    // 0: none.
  std::uint32_t prompt = 1;  // Tokens.
  std::uint32_t output = 1;  // Tokens it makes in the end.
  // What its limit says; >= output. Nothing beyond it is known to the scheduler.
  std::uint32_t output_max = 1;
};

struct Workload {
  std::string name;
  std::vector<Arrival> arrivals;       // By time.
  std::vector<std::uint32_t> weights;  // By member, in thousandths; missing ones are 1000.
};

// What a trace says its own server did, to compare a simulation with; empty if it says nothing.
struct Published {
  std::string policy;                              // "vtc", "fcfs"
  std::vector<Duration> first_output, completion;  // By arrival, since it; < 0: not served.
};

struct Trace {
  Workload workload;
  std::vector<Published> published;
};

// Reads a CSV trace by its header: `arrival_s,user,prompt_tokens,output_tokens[,...]` or
// `TIMESTAMP,ContextTokens,GeneratedTokens`, whose requests are one member's. Errors: Corrupt,
// naming the line.
Result<Trace> read_trace(std::string_view csv, std::string name);

// The workload `times` over, one after another; and with its arrivals `factor` (in thousandths)
// times as dense.
Workload repeated(const Workload& workload, std::uint32_t times);
Workload with_rate(const Workload& workload, std::uint32_t factor);

// One stream of requests of a made-up workload.
struct Source {
  std::string member;
  std::uint32_t cls = 0;
  std::uint32_t weight = 1000;
  std::uint32_t per_minute = 60;  // Mean rate while on.
  std::uint32_t burst = 1;        // Requests that arrive together, as one task if more than one.
  bool poisson = true;            // Else evenly spaced.
  Duration on{}, off{};           // Alternate; off = 0: always on.
  Duration from{}, until{};       // Within the run; until = 0: to its end.
  std::uint32_t prompt = 128, prompt_spread = 0;  // Tokens, uniform within +- spread.
  std::uint32_t output = 128, output_spread = 0;
};

// Deterministic for a seed. Members are numbered in the order in which sources name them.
Workload generate(std::string name, const std::vector<Source>& sources, Duration length,
                  std::uint64_t seed);

}  // namespace lares::sim
