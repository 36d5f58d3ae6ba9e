#include "engine/diffusion/schedule.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/diffusion/noise.h"
#include "engine/diffusion/test_folder.h"

namespace lares::diffusion {
namespace {

ScheduleConfig stable_diffusion() {
  return {.sampler = SamplerKind::Ddim,
          .train_steps = 1000,
          .beta_start = 0.00085,
          .beta_end = 0.012,
          .beta_schedule = BetaSchedule::ScaledLinear,
          .prediction = Prediction::Epsilon,
          .spacing = Spacing::Leading,
          .steps_offset = 1,
          .set_alpha_to_one = false};
}

using Numbers = std::vector<double>;

TEST(Schedule, AlphasAgreeWithTheGoldenOnes) {
  const auto config = read_folder(kStarterModel);
  const std::vector<double> alphas = alphas_cumprod(config->schedule);
  const std::vector<float> ours(alphas.begin(), alphas.end());
  const double difference = largest_difference(ours, golden("scheduler", "alphas_cumprod"));
  RecordProperty("difference", std::to_string(difference));
  EXPECT_LT(difference, 1e-6);
}

TEST(Schedule, LinearBetas) {
  ScheduleConfig c{.train_steps = 3, .beta_start = 0.1, .beta_end = 0.3};
  const std::vector<double> alphas = alphas_cumprod(c);
  EXPECT_NEAR(alphas[0], 0.9, 1e-12);
  EXPECT_NEAR(alphas[1], 0.9 * 0.8, 1e-12);
  EXPECT_NEAR(alphas[2], 0.9 * 0.8 * 0.7, 1e-12);
}

// The lists are what numpy gives for the expressions in diffusers' set_timesteps.
TEST(Schedule, Timesteps) {
  ScheduleConfig c = stable_diffusion();
  EXPECT_EQ(*timesteps(c, SamplerKind::Ddim, 5), (Numbers{801, 601, 401, 201, 1}));
  EXPECT_EQ(*timesteps(c, SamplerKind::Ddim, 3), (Numbers{667, 334, 1}));
  c.spacing = Spacing::Linspace;
  EXPECT_EQ(*timesteps(c, SamplerKind::Ddim, 5), (Numbers{999, 749, 500, 250, 0}));
  const Numbers between = *timesteps(c, SamplerKind::Euler, 5);
  EXPECT_DOUBLE_EQ(between[1], 749.25);
  EXPECT_DOUBLE_EQ(between[3], 249.75);
  c.spacing = Spacing::Trailing;
  EXPECT_EQ(*timesteps(c, SamplerKind::Ddim, 8), (Numbers{999, 874, 749, 624, 499, 374, 249, 124}));
  EXPECT_EQ(*timesteps(c, SamplerKind::Euler, 3), (Numbers{999, 666, 332}));
  EXPECT_EQ(*timesteps(c, SamplerKind::Lcm, 4), (Numbers{999, 759, 499, 259}));
  EXPECT_EQ(*timesteps(c, SamplerKind::Lcm, 1), (Numbers{999}));
}

TEST(Schedule, RefusesAbsurdSteps) {
  const ScheduleConfig c = stable_diffusion();
  EXPECT_EQ(timesteps(c, SamplerKind::Ddim, 0).error().code, Code::Invalid);
  EXPECT_EQ(timesteps(c, SamplerKind::Ddim, 1001).error().code, Code::TooLarge);
  EXPECT_EQ(timesteps(c, SamplerKind::Lcm, 51).error().code, Code::TooLarge);
  EXPECT_EQ(make_trajectory(c, SamplerKind::Ddim, 10, true, 0.05).error().code, Code::Invalid);
  EXPECT_EQ(make_trajectory(c, SamplerKind::Ddim, 10, true, 0).error().code, Code::Invalid);
  EXPECT_EQ(make_trajectory(c, SamplerKind::Ddim, 10, true, NAN).error().code, Code::Invalid);
}

// A network that knows the answer: for a latent that is `clean` plus noise, every sampler must end
// at `clean`, whatever it predicts and however the steps are spaced.
class PerfectNetwork : public testing::TestWithParam<std::tuple<SamplerKind, Prediction, Spacing>> {
};

TEST_P(PerfectNetwork, EndsAtTheCleanLatent) {
  const auto [sampler, prediction, spacing] = GetParam();
  ScheduleConfig c = stable_diffusion();
  c.prediction = prediction;
  c.spacing = spacing;
  c.set_alpha_to_one = true;
  const Trajectory trajectory = *make_trajectory(c, sampler, 12, true, 0.75);
  EXPECT_EQ(trajectory.steps.size(), 9U);
  EXPECT_EQ(trajectory.skipped, 3U);
  const double clean = 0.7;
  const double eps = -1.3;
  const auto alphas = alphas_cumprod(c);
  std::vector<float> x = {
      static_cast<float>(trajectory.start_clean * clean + trajectory.start_noise * eps)};
  for (const TrajectoryStep& step : trajectory.steps) {
    std::vector<float> input(1), predicted(1);
    scale_input(step, x, input);
    // What is left of it at this level is noise, in variance-preserving terms.
    const auto low = static_cast<std::size_t>(step.timestep);
    double alpha = alphas[low];
    if (step.in_x != 1) alpha = step.in_x * step.in_x;  // Euler: 1 / (sigma^2 + 1).
    const double signal = std::sqrt(alpha), noise = std::sqrt(1 - alpha);
    const double noise_now = (input[0] - signal * clean) / noise;
    const double out = prediction == Prediction::V ? signal * noise_now - noise * clean : noise_now;
    const std::vector<float> output = {static_cast<float>(out)};
    predict_clean(step, x, output, predicted);
    if (sampler != SamplerKind::Lcm) {
      EXPECT_NEAR(predicted[0], clean, 2e-4);
    }
    const std::vector<float> fresh = {0.4F};
    advance(step, output, fresh, x);
  }
  EXPECT_NEAR(x[0], clean, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(
    All, PerfectNetwork,
    testing::Combine(testing::Values(SamplerKind::Ddim, SamplerKind::Euler,
                                     SamplerKind::EulerAncestral, SamplerKind::Lcm),
                     testing::Values(Prediction::Epsilon, Prediction::V),
                     testing::Values(Spacing::Leading, Spacing::Linspace, Spacing::Trailing)));

TEST(Schedule, OneDdimStepInClosedForm) {
  ScheduleConfig c = stable_diffusion();
  const Trajectory t = *make_trajectory(c, SamplerKind::Ddim, 5);
  const auto alphas = alphas_cumprod(c);
  const double x = 0.3, out = -0.8, a = alphas[801], next = alphas[601];
  const double clean = (x - std::sqrt(1 - a) * out) / std::sqrt(a);
  EXPECT_NEAR(t.steps[0].next_x * x + t.steps[0].next_out * out,
              std::sqrt(next) * clean + std::sqrt(1 - next) * out, 1e-12);
  const double end = std::sqrt(alphas[0]);  // set_alpha_to_one is false.
  const double last = alphas[1];
  EXPECT_NEAR(t.steps[4].next_x, end / std::sqrt(last), 1e-12);
  EXPECT_EQ(t.start_noise, 1);
  EXPECT_EQ(t.start_clean, 0);
}

TEST(Schedule, EulerAncestralKeepsTheVariance) {
  const ScheduleConfig c = stable_diffusion();
  const Trajectory t = *make_trajectory(c, SamplerKind::EulerAncestral, 10);
  const Trajectory plain = *make_trajectory(c, SamplerKind::Euler, 10);
  for (std::size_t i = 0; i + 1 < t.steps.size(); ++i) {
    const auto sigma = [&](std::size_t k) {
      return std::sqrt(1 / (t.steps[k].in_x * t.steps[k].in_x) - 1);
    };
    // down^2 + up^2 = next^2, with down read off the coefficient: next_out = down - sigma.
    const double down = t.steps[i].next_out + sigma(i);
    EXPECT_NEAR(down * down + t.steps[i].next_noise * t.steps[i].next_noise,
                sigma(i + 1) * sigma(i + 1), 1e-9);
    EXPECT_GT(t.steps[i].next_noise, 0);
    EXPECT_EQ(plain.steps[i].next_noise, 0);
    EXPECT_NEAR(plain.steps[i].next_out, sigma(i + 1) - sigma(i), 1e-9);
  }
  EXPECT_EQ(t.steps.back().next_noise, 0);
  // Leading spacing starts from the spread of noise and picture together.
  const double first = 1 / t.steps[0].in_x;
  EXPECT_NEAR(t.start_noise, first, 1e-9);
}

TEST(Schedule, LcmInClosedForm) {
  const ScheduleConfig c = stable_diffusion();
  const Trajectory t = *make_trajectory(c, SamplerKind::Lcm, 4);
  const auto alphas = alphas_cumprod(c);
  const double scaled = 999 * 10.0;
  const double skip = 0.25 / (scaled * scaled + 0.25);
  const double out = scaled / std::sqrt(scaled * scaled + 0.25);
  EXPECT_NEAR(t.steps[0].clean_x, out / std::sqrt(alphas[999]) + skip, 1e-12);
  EXPECT_NEAR(t.steps[0].next_noise, std::sqrt(1 - alphas[759]), 1e-12);
  EXPECT_EQ(t.steps[3].next_noise, 0);
  EXPECT_EQ(t.steps[3].next_x, t.steps[3].clean_x);
}

TEST(Noise, IsNormalAndDependsOnEveryCounter) {
  std::vector<float> a(100'000), b(100'000);
  fill_noise(7, kStartDraw, a);
  double sum = 0, squares = 0, fourth = 0;
  for (const float v : a) {
    sum += v;
    squares += double{v} * v;
    fourth += std::pow(double{v}, 4);
  }
  const double n = static_cast<double>(a.size());
  EXPECT_NEAR(sum / n, 0, 0.015);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(fourth / n, 3, 0.15);
  for (const auto& [seed, draw] : {std::pair{8U, kStartDraw}, std::pair{7U, step_draw(0)}}) {
    fill_noise(seed, draw, b);
    double product = 0;
    for (std::size_t i = 0; i < a.size(); ++i) product += double{a[i]} * b[i];
    EXPECT_NEAR(product / n, 0, 0.02);
  }
  b.resize(5);  // A shorter draw is the beginning of a longer one.
  fill_noise(7, kStartDraw, b);
  for (std::size_t i = 0; i < b.size(); ++i) EXPECT_EQ(a[i], b[i]);
}

TEST(Noise, IsTheSameEverywhere) {
  std::vector<float> a(4);
  fill_noise(1, 0, a);
  const std::vector<float> once = {0.609807713F, 1.27457825F, 0.918200386F, -1.7567231F};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(a[i], once[i]);
}

}  // namespace
}  // namespace lares::diffusion
