#include "sim/fairness.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/text.h"

namespace lares::sim {
namespace {

// Of one member: cumulated amounts at whole seconds, so that a window is a difference.
struct Curve {
  std::vector<double> served, asked;
};

// Adds `service`, spread evenly over [from, to), to the seconds' bins.
void spread(std::vector<double>& bins, double from, double to, double service) {
  const double last = static_cast<double>(bins.size());
  if (to <= from) to = from + 1e-9;
  for (auto bin = static_cast<std::size_t>(from); bin < bins.size(); ++bin) {
    const double low = std::max(from, static_cast<double>(bin));
    const double high = std::min({to, static_cast<double>(bin) + 1, last});
    if (high <= low) break;
    bins[bin] += service * (high - low) / (to - from);
  }
}

void accumulate(std::vector<double>& bins) {
  double sum = 0;
  for (double& bin : bins) {
    const double own = bin;
    bin = sum;
    sum += own;
  }
  bins.push_back(sum);
}

}  // namespace

ServiceDifference service_difference(std::span<const Served> requests) {
  constexpr std::size_t kHalf = 30;
  double last_arrival = 0;
  std::uint32_t members = 0;
  for (const Served& r : requests) {
    last_arrival = std::max(last_arrival, in_seconds(r.arrival));
    members = std::max(members, r.member + 1);
  }
  const auto bins = static_cast<std::size_t>(std::ceil(last_arrival)) + kHalf + 1;
  std::vector<Curve> curves(members);
  for (Curve& c : curves) {
    c.served.resize(bins);
    c.asked.resize(bins);
  }
  for (const Served& r : requests) {
    Curve& c = curves[r.member];
    spread(c.served, in_seconds(r.first_output), in_seconds(r.end), r.service);
    c.asked[static_cast<std::size_t>(in_seconds(r.arrival))] += r.service;
  }
  for (Curve& c : curves) {
    accumulate(c.served);
    accumulate(c.asked);
  }
  ServiceDifference result;
  std::size_t samples = 0;
  for (std::size_t t = kHalf; static_cast<double>(t) <= last_arrival - kHalf; ++t) {
    double greatest = 0, sum = 0;
    for (const Curve& c : curves)
      greatest = std::max(greatest, c.served[t + kHalf] - c.served[t - kHalf]);
    for (const Curve& c : curves) {
      const double own = c.served[t + kHalf] - c.served[t - kHalf];
      const double asked = c.asked[t + kHalf] - c.asked[t - kHalf];
      sum += std::min(greatest - own, std::abs(asked - own));
    }
    const double rate = sum / (2.0 * kHalf);
    result.average += rate;
    result.largest = std::max(result.largest, rate);
    ++samples;
  }
  if (samples > 0) result.average /= static_cast<double>(samples);
  return result;
}

double backlogged_jain(std::span<const Served> requests, std::span<const std::uint32_t> weights) {
  constexpr std::size_t kWindow = 60, kApart = 15;
  double end = 0;
  std::uint32_t members = 0;
  for (const Served& r : requests) {
    end = std::max(end, in_seconds(r.end));
    members = std::max(members, r.member + 1);
  }
  const auto bins = static_cast<std::size_t>(std::ceil(end)) + 1;
  std::vector<std::vector<double>> served(members, std::vector<double>(bins));
  std::vector<std::vector<bool>> waits(members, std::vector<bool>(bins));
  for (const Served& r : requests) {
    spread(served[r.member], in_seconds(r.first_output), in_seconds(r.end), r.service);
    const auto from = static_cast<std::size_t>(std::ceil(in_seconds(r.arrival)));
    const auto to = static_cast<std::size_t>(in_seconds(r.started));
    for (std::size_t t = from; t < to; ++t) waits[r.member][t] = true;
  }
  double sum = 0, windows = 0;
  for (std::size_t t = 0; t + kWindow <= bins; t += kApart) {
    const auto window = static_cast<std::ptrdiff_t>(t);
    std::vector<double> shares;
    for (std::uint32_t m = 0; m < members; ++m) {
      const auto first = waits[m].begin() + window;
      if (!std::all_of(first, first + kWindow, [](bool waited) { return waited; })) continue;
      const auto from = served[m].begin() + window;
      const double weight = m < weights.size() ? weights[m] : 1000;
      shares.push_back(std::accumulate(from, from + kWindow, 0.0) / weight);
    }
    if (shares.size() < 2) continue;
    sum += jain_index(shares);
    ++windows;
  }
  return windows > 0 ? sum / windows : 1;
}

double jain_index(std::span<const double> shares) {
  double sum = 0, squares = 0;
  for (const double x : shares) {
    sum += x;
    squares += x * x;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}

}  // namespace lares::sim
