// The numbers of a trajectory: which timesteps are visited, and what each step does to a latent.
//
// Every sampler here is linear in the latent x, the network's output and fresh noise, so a step is
// five numbers, computed once in double from the schedule:
//   input of the network  = in_x * x
//   predicted clean latent = clean_x * x + clean_out * out
//   next latent            = next_x * x + next_out * out + next_noise * noise
// DDIM (Song et al. 2021, eta 0), Euler and Euler ancestral (Karras et al. 2022, as k-diffusion
// has them), LCM (Luo et al. 2023). Timesteps and start follow diffusers 0.21-0.24, but for one
// thing: a DDIM step goes to the noise level of the next timestep that is visited, where diffusers
// goes to t - train_steps / steps, which is another one when the spacing is not even.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "engine/diffusion/config.h"

namespace lares::diffusion {

// Most steps of a picture. LCM allows no more than it was distilled with.
inline constexpr std::uint32_t kStepsMax = 1000;

struct TrajectoryStep {
  float timestep = 0;  // What the network is told; Euler's may lie between two of training.
  double in_x = 1;
  double clean_x = 0, clean_out = 0;
  double next_x = 0, next_out = 0, next_noise = 0;
};

struct Trajectory {
  // x = start_clean * (a clean latent) + start_noise * noise. From noise alone, start_clean is 0.
  double start_clean = 0;
  double start_noise = 1;
  std::vector<TrajectoryStep> steps;
  std::uint32_t skipped = 0;  // Steps left out because the picture starts from a latent.
};

// Product of (1 - beta) up to each training step.
std::vector<double> alphas_cumprod(const ScheduleConfig& config);

// What to visit, from noisy to clean.
Result<std::vector<double>> timesteps(const ScheduleConfig& config, SamplerKind sampler,
                                      std::uint32_t steps);

// `strength` is how much of the trajectory a picture that starts from a latent runs through: 1 =
// all of it (and nothing of the latent is left, as with none), 0.3 = the last three tenths. Errors:
// Invalid (no steps, or none left at that strength), TooLarge.
Result<Trajectory> make_trajectory(const ScheduleConfig& config, SamplerKind sampler,
                                   std::uint32_t steps, bool from_latent = false,
                                   double strength = 1);

// The three linear combinations, in F32 over the values.
void scale_input(const TrajectoryStep& step, std::span<const float> x, std::span<float> out);
void predict_clean(const TrajectoryStep& step, std::span<const float> x,
                   std::span<const float> output, std::span<float> clean);
// `noise` may be empty if next_noise is 0. Writes over x.
void advance(const TrajectoryStep& step, std::span<const float> output,
             std::span<const float> noise, std::span<float> x);

}  // namespace lares::diffusion
