#include "server/step_watch.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

namespace lares::server {
namespace {

std::size_t bucket(std::uint32_t tokens) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(tokens)), 16);
}

}  // namespace

void StepWatch::observe(std::uint32_t tokens, Duration took) {
  double& mean = mean_ns_[bucket(tokens)];
  const auto ns = static_cast<double>(took.count());
  mean = mean == 0 ? ns : mean + (ns - mean) / 8;
}

Duration StepWatch::limit(std::uint32_t tokens) const {
  using std::chrono::minutes;
  using std::chrono::seconds;
  const std::size_t wanted = bucket(tokens);
  double expected = 0;
  for (std::size_t i = 0; i < mean_ns_.size(); ++i) {
    if (mean_ns_[i] == 0) continue;
    // A step of twice the tokens takes at most twice the time; a smaller one at most as long.
    const double scale = i < wanted ? std::exp2(static_cast<double>(wanted - i)) : 1.0;
    const double estimate = mean_ns_[i] * scale;
    if (i <= wanted || expected == 0) expected = estimate;
  }
  if (expected == 0) return minutes(10);
  const Duration allowed(static_cast<Duration::rep>(std::min(expected * 10, 6e14)));
  return std::max<Duration>(allowed, seconds(10));
}

}  // namespace lares::server
