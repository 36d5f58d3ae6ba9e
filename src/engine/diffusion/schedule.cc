#include "engine/diffusion/schedule.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/assert.h"

namespace lares::diffusion {
namespace {

bool is_euler(SamplerKind sampler) {
  return sampler == SamplerKind::Euler || sampler == SamplerKind::EulerAncestral;
}

// As numpy's: halves to even.
double rounded(double x) {
  return std::nearbyint(x);
}

// LCM visits steps of the schedule it was distilled on (diffusers 0.24: evenly spread indices).
Result<std::vector<double>> lcm_timesteps(const ScheduleConfig& c, std::uint32_t steps) {
  if (steps > c.original_steps) {
    return fail(Code::TooLarge,
                fmt::format("{} steps; at most {} with LCM, which was distilled from "
                            "so many",
                            steps, c.original_steps));
  }
  const std::uint32_t stride = c.train_steps / c.original_steps;
  std::vector<double> out;
  for (std::uint32_t i = 0; i < steps; ++i) {
    const std::uint64_t index = std::uint64_t{i} * c.original_steps / steps;
    out.push_back(static_cast<double>((c.original_steps - index) * stride) - 1);
  }
  return out;
}

// What a predicted output says about the clean latent and about the noise, for
// x = signal * clean + noise * eps (Salimans and Ho 2022 for v = signal * eps - noise * clean).
struct Reading {
  double clean_x, clean_out, eps_x, eps_out;
};

Reading reading_of(Prediction prediction, double signal, double noise) {
  if (prediction == Prediction::V) return {signal, -noise, noise, signal};
  return {1 / signal, -noise / signal, 0, 1};
}

double sigma_of(double alpha) {
  return std::sqrt((1 - alpha) / alpha);
}

// The noise level at a timestep that may lie between two, as numpy.interp over the training ones.
double sigma_at(const std::vector<double>& alphas, double t) {
  const double last = static_cast<double>(alphas.size() - 1);
  const double at = std::clamp(t, 0.0, last);
  const auto low = static_cast<std::size_t>(at);
  const auto high = std::min(low + 1, alphas.size() - 1);
  const double share = at - static_cast<double>(low);
  return (1 - share) * sigma_of(alphas[low]) + share * sigma_of(alphas[high]);
}

double alpha_at(const std::vector<double>& alphas, double t) {
  return alphas[static_cast<std::size_t>(t)];
}

TrajectoryStep ddim_step(const ScheduleConfig& c, double t, double alpha, double alpha_next) {
  const Reading r = reading_of(c.prediction, std::sqrt(alpha), std::sqrt(1 - alpha));
  const double signal = std::sqrt(alpha_next), noise = std::sqrt(1 - alpha_next);
  return {.timestep = static_cast<float>(t),
          .in_x = 1,
          .clean_x = r.clean_x,
          .clean_out = r.clean_out,
          .next_x = signal * r.clean_x + noise * r.eps_x,
          .next_out = signal * r.clean_out + noise * r.eps_out,
          .next_noise = 0};
}

// x = clean + sigma * eps; dx/dsigma = (x - clean) / sigma.
TrajectoryStep euler_step(const ScheduleConfig& c, double t, double sigma, double sigma_next,
                          bool ancestral) {
  double down = sigma_next, up = 0;
  if (ancestral && sigma_next > 0) {
    const double s2 = sigma * sigma, n2 = sigma_next * sigma_next;
    up = std::sqrt(n2 * (s2 - n2) / s2);
    down = std::sqrt(n2 - up * up);
  }
  // In variance-preserving terms the latent is x * in_x, with signal in_x and noise sigma * in_x.
  const double in_x = 1 / std::sqrt(sigma * sigma + 1);
  const Reading r = reading_of(c.prediction, in_x, sigma * in_x);
  TrajectoryStep step{.timestep = static_cast<float>(t), .in_x = in_x};
  step.clean_x = r.clean_x * in_x;
  step.clean_out = r.clean_out;
  const double share = (down - sigma) / sigma;
  step.next_x = 1 + share * (1 - step.clean_x);
  step.next_out = -share * step.clean_out;
  step.next_noise = up;
  return step;
}

// A consistency model maps to a clean latent, which is then noised again to the next level.
TrajectoryStep lcm_step(const ScheduleConfig& c, double t, double alpha, double alpha_next,
                        bool last) {
  constexpr double kSigmaData = 0.5;  // Of the boundary condition; a constant in diffusers, too.
  const double scaled = t * c.timestep_scaling;
  const double squared = scaled * scaled + kSigmaData * kSigmaData;
  const double skip = kSigmaData * kSigmaData / squared;
  const double out = scaled / std::sqrt(squared);
  const Reading r = reading_of(c.prediction, std::sqrt(alpha), std::sqrt(1 - alpha));
  TrajectoryStep step{.timestep = static_cast<float>(t)};
  step.clean_x = out * r.clean_x + skip;
  step.clean_out = out * r.clean_out;
  const double signal = last ? 1 : std::sqrt(alpha_next);
  step.next_x = signal * step.clean_x;
  step.next_out = signal * step.clean_out;
  step.next_noise = last ? 0 : std::sqrt(1 - alpha_next);
  return step;
}

}  // namespace

std::vector<double> alphas_cumprod(const ScheduleConfig& c) {
  std::vector<double> out;
  out.reserve(c.train_steps);
  const bool scaled = c.beta_schedule == BetaSchedule::ScaledLinear;
  const double first = scaled ? std::sqrt(c.beta_start) : c.beta_start;
  const double last = scaled ? std::sqrt(c.beta_end) : c.beta_end;
  double product = 1;
  for (std::uint32_t i = 0; i < c.train_steps; ++i) {
    const double share = c.train_steps == 1 ? 0 : static_cast<double>(i) / (c.train_steps - 1);
    const double root = first + (last - first) * share;
    product *= 1 - (scaled ? root * root : root);
    out.push_back(product);
  }
  return out;
}

Result<std::vector<double>> timesteps(const ScheduleConfig& c, SamplerKind sampler,
                                      std::uint32_t steps) {
  const std::uint32_t most = std::min(kStepsMax, c.train_steps);
  if (steps == 0) return fail(Code::Invalid, "a picture needs at least one step");
  if (steps > most) return fail(Code::TooLarge, fmt::format("{} steps; at most {}", steps, most));
  if (sampler == SamplerKind::Lcm) return lcm_timesteps(c, steps);
  const double train = c.train_steps;
  std::vector<double> out(steps);
  for (std::uint32_t i = 0; i < steps; ++i) {
    const std::uint32_t back = steps - 1 - i;
    switch (c.spacing) {
      case Spacing::Leading:
        out[i] = static_cast<double>(back) * (c.train_steps / steps) + c.steps_offset;
        break;
      case Spacing::Linspace:
        out[i] = steps == 1 ? 0 : back * (train - 1) / (steps - 1);
        if (!is_euler(sampler)) out[i] = rounded(out[i]);
        break;
      case Spacing::Trailing: out[i] = rounded(train - i * (train / steps)) - 1; break;
    }
    out[i] = std::clamp(out[i], 0.0, train - 1);
  }
  return out;
}

Result<Trajectory> make_trajectory(const ScheduleConfig& c, SamplerKind sampler,
                                   std::uint32_t steps, bool from_latent, double strength) {
  if (!(strength > 0 && strength <= 1)) {
    return fail(Code::Invalid, fmt::format("strength {}: must be above 0 and at most 1", strength));
  }
  std::vector<double> visited = TRY(timesteps(c, sampler, steps));
  const std::vector<double> alphas = alphas_cumprod(c);
  Trajectory out;
  if (from_latent) {  // diffusers: min(int(steps * strength), steps) of them, from the clean end.
    const auto kept = static_cast<std::uint32_t>(steps * strength + 1e-9);
    if (kept == 0) {
      return fail(Code::Invalid,
                  fmt::format("strength {} leaves none of {} steps", strength, steps));
    }
    out.skipped = steps - kept;
    visited.erase(visited.begin(), visited.begin() + out.skipped);
  }
  const double final_alpha = c.set_alpha_to_one ? 1.0 : alphas[0];
  for (std::size_t i = 0; i < visited.size(); ++i) {
    const bool last = i + 1 == visited.size();
    const double t = visited[i];
    if (is_euler(sampler)) {
      out.steps.push_back(euler_step(c, t, sigma_at(alphas, t),
                                     last ? 0 : sigma_at(alphas, visited[i + 1]),
                                     sampler == SamplerKind::EulerAncestral));
    } else {
      const double next = last ? final_alpha : alpha_at(alphas, visited[i + 1]);
      out.steps.push_back(sampler == SamplerKind::Lcm
                              ? lcm_step(c, t, alpha_at(alphas, t), next, last)
                              : ddim_step(c, t, alpha_at(alphas, t), next));
    }
  }
  const double first = visited.front();
  if (is_euler(sampler)) {
    const double sigma = sigma_at(alphas, first);
    out.start_clean = 1;
    out.start_noise = sigma;
    // With `leading` spacing the first level is not the last of training: diffusers starts from
    // the spread that clean latents and noise have together.
    if (!from_latent && c.spacing == Spacing::Leading)
      out.start_noise = std::sqrt(sigma * sigma + 1);
  } else {
    const double alpha = alpha_at(alphas, first);
    out.start_clean = std::sqrt(alpha);
    out.start_noise = std::sqrt(1 - alpha);
  }
  if (!from_latent) {
    out.start_clean = 0;
    if (!is_euler(sampler)) out.start_noise = 1;
  }
  return out;
}

void scale_input(const TrajectoryStep& step, std::span<const float> x, std::span<float> out) {
  const auto in_x = static_cast<float>(step.in_x);
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = in_x * x[i];
}

void predict_clean(const TrajectoryStep& step, std::span<const float> x,
                   std::span<const float> output, std::span<float> clean) {
  const auto a = static_cast<float>(step.clean_x), b = static_cast<float>(step.clean_out);
  for (std::size_t i = 0; i < x.size(); ++i) clean[i] = a * x[i] + b * output[i];
}

void advance(const TrajectoryStep& step, std::span<const float> output,
             std::span<const float> noise, std::span<float> x) {
  const auto a = static_cast<float>(step.next_x), b = static_cast<float>(step.next_out);
  const auto c = static_cast<float>(step.next_noise);
  LARES_ASSERT(step.next_noise == 0 || noise.size() == x.size(), "{} values of noise for {}",
               noise.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = a * x[i] + b * output[i] + (step.next_noise == 0 ? 0.0F : c * noise[i]);
  }
}

}  // namespace lares::diffusion
