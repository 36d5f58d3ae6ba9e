// How evenly the device was shared: the figures that papers on fair serving use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/types.h"

namespace lares::sim {

// What one request took, in units of service, and when. Service is spread evenly over the time from
// the first output to the end.
struct Served {
  Duration arrival{};
  Duration started{};  // Its first token was given to the device.
  Duration first_output{}, end{};
  std::uint32_t member = 0;
  double service = 0;
};

// 1 x prompt + 2 x output tokens (Sheng et al., OSDI 2024, section 3).
constexpr double token_service(std::uint32_t prompt, std::uint32_t output) {
  return prompt + 2.0 * output;
}

struct ServiceDifference {
  double average = 0, largest = 0;
};

// At every whole second t from 30 s to 30 s before the last arrival, over the window
// [t - 30, t + 30): for each member the lesser of (greatest service of any member - own service)
// and |service asked for by arrivals in the window - own service|, summed over members, a second.
// The average and the largest of it over t.
ServiceDifference service_difference(std::span<const Served> requests);

// Jain's index of service / weight between the members that are backlogged - some request of theirs
// waits, in every second - over windows of a minute, 15 s apart; the mean over the windows with two
// such members or more, 1 if there are none. `weights` by member in thousandths, 1000 where
// missing.
double backlogged_jain(std::span<const Served> requests, std::span<const std::uint32_t> weights);

// (sum x)^2 / (n * sum x^2): 1 when all are equal, 1/n when one has everything. 1 for none.
double jain_index(std::span<const double> shares);

// The value at quantile q in [0, 1] of the values, linearly between neighbours. 0 for none.
double quantile(std::vector<double> values, double q);

}  // namespace lares::sim
