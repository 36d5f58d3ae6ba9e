#include "engine/llm/sampler.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace lares::llm {
namespace {

using engine::Sampling;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampling plain(float temperature = 1.0F) {
  Sampling s;
  s.temperature = temperature;
  s.top_k = 0;
  s.top_p = 1;
  s.min_p = 0;
  return s;
}

Sampled sample(std::vector<float> logits, const Sampling& sampling,
               const std::vector<std::int32_t>& tokens = {}, std::uint32_t prompt = 0,
               const std::vector<std::int32_t>& ends = {}) {
  Sampler sampler;
  return sampler.sample({logits, tokens, prompt, ends}, sampling);
}

// What may be drawn, written as plainly as possible: sort, then cut. Weights are exp(logit).
std::vector<std::int32_t> reference_candidates(const std::vector<float>& logits,
                                               const Sampling& s) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return logit(a) > logit(b); });
  if (s.top_k > 0) ids.resize(std::min<std::size_t>(ids.size(), s.top_k));
  const float max = logit(ids[0]);
  if (s.top_p < 1) {
    double total = 0;
    for (const auto id : ids) total += std::exp(logit(id) - max);
    double sum = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      sum += std::exp(logit(ids[i]) - max);
      if (sum >= static_cast<double>(s.top_p) * total) {
        ids.resize(i + 1);
        break;
      }
    }
  }
  if (s.min_p > 0) {
    const float least = max + std::log(s.min_p);
    std::size_t keep = 1;
    while (keep < ids.size() && logit(ids[keep]) >= least) ++keep;
    ids.resize(keep);
  }
  return ids;
}

std::int32_t reference_draw(const std::vector<float>& logits, const Sampling& s,
                            std::uint64_t position) {
  const std::vector<std::int32_t> ids = reference_candidates(logits, s);
  const std::uint64_t key = noise_key(s.seed, s.choice, position);
  const double max = logits[static_cast<std::size_t>(ids[0])];
  const double cold = 1.0 / static_cast<double>(s.temperature);
  double best = -std::numeric_limits<double>::infinity();
  std::int32_t token = ids[0];
  for (const auto id : ids) {
    const double score =
        (static_cast<double>(logits[static_cast<std::size_t>(id)]) - max) * cold + gumbel(key, id);
    if (score > best || (score == best && id < token)) {
      best = score;
      token = id;
    }
  }
  return token;
}

TEST(Sampler, GreedyTakesTheBestAndTheLowerOfEquals) {
  EXPECT_EQ(sample({1, 5, 5, 2}, plain(0)).token, 1);
  EXPECT_EQ(sample({7, 5, 5, 2}, plain(0)).token, 0);
  const Sampled s = sample({1, 5, 4.5F, 2}, plain(0));
  EXPECT_FLOAT_EQ(s.best[0], 5);
  EXPECT_FLOAT_EQ(s.best[1], 4.5F);
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  // Chi-square over 20,000 positions; 7 degrees of freedom, 24.3 is exceeded once in a thousand.
  // The seed is fixed, so this never changes by itself.
  const std::vector<float> logits = {0.0F, 1.0F, -1.0F, 2.0F, 0.5F, -0.5F, 1.5F, -2.0F};
  for (const float temperature : {0.7F, 1.0F, 1.6F}) {
    std::vector<double> want;
    double total = 0;
    for (const float x : logits) total += std::exp(x / temperature);
    for (const float x : logits) want.push_back(std::exp(x / temperature) / total);
    constexpr int kDraws = 20000;
    std::vector<int> got(logits.size());
    Sampler sampler;
    Sampling sampling = plain(temperature);
    sampling.seed = 4242;
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < kDraws; ++i) {
      std::vector<float> row = logits;
      ++got[static_cast<std::size_t>(sampler.sample({row, tokens, 0, {}}, sampling).token)];
      tokens.push_back(0);
    }
    double chi = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      chi += (got[i] - kDraws * want[i]) * (got[i] - kDraws * want[i]) / (kDraws * want[i]);
    }
    EXPECT_LT(chi, 24.3) << "temperature " << temperature;
  }
}

TEST(Sampler, DrawsOfSeedsAndChoicesAreIndependent) {
  // The pair of what two seeds (or two choices) draw at the same position is uniform over 4 x 4.
  for (const bool by_choice : {false, true}) {
    std::vector<int> got(16);
    constexpr int kDraws = 8000;
    for (int i = 0; i < kDraws; ++i) {
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(i % 40));
      Sampling a = plain();
      a.seed = static_cast<std::uint64_t>(i / 40);
      Sampling b = a;
      if (by_choice) {
        b.choice = 1;
      } else {
        b.seed = a.seed + 1000;
      }
      const auto x = sample({0, 0, 0, 0}, a, tokens).token;
      const auto y = sample({0, 0, 0, 0}, b, tokens).token;
      ++got[static_cast<std::size_t>(x * 4 + y)];
    }
    double chi = 0;
    for (const int n : got) chi += (n - kDraws / 16.0) * (n - kDraws / 16.0) / (kDraws / 16.0);
    EXPECT_LT(chi, 37.7);  // 15 degrees of freedom, once in a thousand.
  }
}

TEST(Sampler, ResultDependsOnArgumentsAlone) {
  std::vector<float> logits(300);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i) * 7);
  Sampling s;
  s.seed = 99;
  s.repeat_penalty = 1.2F;
  s.presence_penalty = 0.5F;
  const std::vector<std::int32_t> tokens = {1, 2, 3, 2, 250};
  Sampler used;
  for (int i = 0; i < 50; ++i) {  // Other work in between leaves no trace.
    std::vector<float> row(logits.rbegin(), logits.rend());
    const std::vector<std::int32_t> other(static_cast<std::size_t>(i), i);
    Sampling noise = s;
    noise.seed = static_cast<std::uint64_t>(i);
    used.sample({row, other, 0, {}}, noise);
  }
  std::vector<float> row = logits;
  EXPECT_EQ(used.sample({row, tokens, 2, {}}, s).token, sample(logits, s, tokens, 2).token);
}

TEST(Sampler, SeedChoiceAndPositionChangeTheNoise) {
  const std::vector<float> logits(64, 0.0F);
  std::set<std::int32_t> by_seed, by_choice, by_position;
  for (std::uint32_t i = 0; i < 20; ++i) {
    Sampling s = plain();
    s.seed = i;
    by_seed.insert(sample(logits, s).token);
    s.seed = 0;
    s.choice = i;
    by_choice.insert(sample(logits, s).token);
    s.choice = 0;
    by_position.insert(sample(logits, s, std::vector<std::int32_t>(i)).token);
  }
  EXPECT_GT(by_seed.size(), 10U);
  EXPECT_GT(by_choice.size(), 10U);
  EXPECT_GT(by_position.size(), 10U);
}

TEST(Sampler, TruncationMatchesThePlainReference) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::size_t>(1, 400);
    const auto raw = *rc::gen::container<std::vector<int>>(size, rc::gen::inRange(-300, 300));
    const float scale = *rc::gen::element(0.01F, 0.05F, 0.3F);  // Small steps make many ties.
    std::vector<float> logits;
    for (const int x : raw) logits.push_back(static_cast<float>(x) * scale);
    Sampling s;
    s.temperature = *rc::gen::element(0.3F, 1.0F, 2.5F);
    s.top_k = *rc::gen::element<std::uint32_t>(0, 1, 2, 5, 40, 1000);
    // Uneven, so that no run of equal weights sums to exactly this share: rounding would decide.
    s.top_p = *rc::gen::element(0.0F, 0.1013F, 0.5171F, 0.9037F, 0.9991F, 1.0F);
    s.min_p = *rc::gen::element(0.0F, 0.001F, 0.05F, 0.5F, 1.0F, 2.0F);
    s.seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto position = *rc::gen::inRange<std::size_t>(0, 50);
    RC_ASSERT(sample(logits, s, std::vector<std::int32_t>(position)).token ==
              reference_draw(logits, s, position));
  }));
}

TEST(Sampler, WholeVocabularyOfRealSize) {
  // 151,936 tokens, no truncation: the bound that skips logarithms must not change the draw.
  std::vector<float> logits(151936);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = 6 * std::sin(static_cast<float>(i % 7919)) + static_cast<float>(i % 13) * 0.2F;
  }
  Sampling s = plain(0.9F);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    s.seed = seed;
    ASSERT_EQ(sample(logits, s).token, reference_draw(logits, s, 0)) << seed;
  }
  s.top_p = 0.9F;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    s.seed = seed;
    ASSERT_EQ(sample(logits, s).token, reference_draw(logits, s, 0)) << seed;
  }
}

TEST(Sampler, PenaltiesAsDocumented) {
  // Repeat: prompt and answer, positive logits divided, negative ones multiplied; once however
  // often.
  Sampling s = plain(0);
  s.repeat_penalty = 2;
  EXPECT_FLOAT_EQ(sample({4, 3, 1}, s, {0, 0}, 2).best[0], 3);
  EXPECT_FLOAT_EQ(sample({-1, -3, -4}, s, {0}, 1).best[0], -2);
  s.penalty_window = 1;
  EXPECT_EQ(sample({4, 3, 1}, s, {0, 1}, 0).token, 0);  // Only the last token is looked at.
  s.penalty_window = 0;
  EXPECT_EQ(sample({4, 3, 1}, s, {0}, 0).token, 0);

  // Presence once, frequency per occurrence, the prompt excluded.
  s = plain(0);
  s.presence_penalty = 1.5F;
  EXPECT_EQ(sample({4, 3, 1}, s, {0, 0}, 2).token, 0);
  EXPECT_EQ(sample({4, 3, 1}, s, {0, 0}, 0).token, 1);
  s = plain(0);
  s.frequency_penalty = 0.6F;
  EXPECT_EQ(sample({4, 3, 1}, s, {0}, 0).token, 0);
  EXPECT_EQ(sample({4, 3, 1}, s, {0, 0}, 0).token, 1);
}

TEST(Sampler, BiasAndEndTokens) {
  Sampling s = plain(0);
  s.logit_bias = {{2, 100.0F}, {-1, 5.0F}, {3, 5.0F}};  // Those outside the vocabulary do nothing.
  EXPECT_EQ(sample({4, 3, 1}, s).token, 2);
  s.ignore_eos = true;
  EXPECT_EQ(sample({4, 3, 1}, s, {}, 0, {2, 9, -1}).token, 0);
  s.logit_bias = {{0, -kInf}};
  EXPECT_EQ(sample({4, 3, 1}, s, {}, 0, {2}).token, 1);
}

TEST(Sampler, LogprobsAreOfTheUntruncatedRow) {
  const std::vector<float> logits = {0, 1, 2, 3};
  double total = 0;
  for (const float x : logits) total += std::exp(x);
  Sampling s;
  s.top_k = 1;
  s.want_logprob = true;
  s.logprobs = 3;
  const Sampled out = sample(logits, s);
  EXPECT_EQ(out.token, 3);
  EXPECT_NEAR(out.logprob, 3 - std::log(total), 1e-5);
  ASSERT_EQ(out.top.size(), 3U);
  EXPECT_EQ(out.top[2].token, 1);
  EXPECT_NEAR(out.top[2].logprob, 1 - std::log(total), 1e-5);

  s.logprobs = 20;  // More than there are.
  EXPECT_EQ(sample(logits, s).top.size(), 4U);
  s.logprobs = 0;
  s.want_logprob = false;
  EXPECT_EQ(sample(logits, s).logprob, 0);
}

TEST(Sampler, WildLogitsAreTamed) {
  for (const float temperature : {0.0F, 1.0F}) {
    for (const std::uint32_t top_k : {0U, 3U}) {
      for (const float top_p : {0.9F, 1.0F}) {
        Sampling s = plain(temperature);
        s.top_k = top_k;
        s.top_p = top_p;
        s.want_logprob = true;
        s.logprobs = 2;
        EXPECT_EQ(sample({kNan, 1, kNan}, s).token, 1);
        EXPECT_EQ(sample({1, kInf, 2}, s).token, 1);
        EXPECT_EQ(sample({kNan, kNan, kNan}, s).token, 0);
        EXPECT_EQ(sample({-kInf, -kInf}, s).token, 0);
        EXPECT_EQ(sample({-kInf}, s).logprob, kLogprobMin);
        EXPECT_EQ(sample({-kInf, 0, kNan}, s).top[1].logprob, kLogprobMin);
        EXPECT_EQ(sample({3}, s).token, 0);
      }
    }
  }
}

TEST(Sampler, WildValuesEverywhereNeverLeaveTheVocabulary) {
  EXPECT_TRUE(rc::check([] {
    const auto any = rc::gen::element(kNan, kInf, -kInf, std::numeric_limits<float>::max(),
                                      std::numeric_limits<float>::lowest(), 0.0F, -1.0F, 1e-30F);
    const auto size = *rc::gen::inRange<std::size_t>(1, 12);
    const auto logits = *rc::gen::container<std::vector<float>>(size, any);
    Sampling s;
    s.temperature = *rc::gen::element(0.0F, 1e-44F, 1.0F, 1e30F);
    s.top_k = *rc::gen::inRange<std::uint32_t>(0, 4);
    s.top_p = *rc::gen::element(0.0F, 0.5F, 1.0F);
    s.min_p = *rc::gen::element(0.0F, 1e-30F, 0.5F, 1.0F);
    s.repeat_penalty = *rc::gen::element(1e-30F, 1.0F, 3e30F);
    s.frequency_penalty = *rc::gen::element(0.0F, -3e38F, 3e38F);
    s.logit_bias = {{0, *any}};
    s.logprobs = 3;
    const Sampled out = sample(logits, s, {0, 1, 1}, 1);
    RC_ASSERT(out.token >= 0);
    RC_ASSERT(static_cast<std::size_t>(out.token) < size);
    RC_ASSERT(!std::isnan(out.logprob));
    for (const auto& top : out.top) RC_ASSERT(!std::isnan(top.logprob));
  }));
}

// Allows the tokens that it was given.
class Only final : public TokenFilter {
 public:
  explicit Only(std::set<std::int32_t> allowed) : allowed_(std::move(allowed)) {}
  [[nodiscard]] bool applies() const override { return true; }
  void keep_allowed(std::vector<std::int32_t>& tokens) override {
    most_ = std::max(most_, tokens.size());
    std::erase_if(tokens, [&](std::int32_t token) { return !allowed_.contains(token); });
  }
  [[nodiscard]] std::size_t most() const { return most_; }  // Asked about at once.

 private:
  std::set<std::int32_t> allowed_;
  std::size_t most_ = 0;
};

std::vector<float> descending(std::size_t n) {
  std::vector<float> logits(n);
  for (std::size_t i = 0; i < n; ++i) logits[i] = -0.001F * static_cast<float>(i);
  return logits;
}

Sampled sample_among(Only& filter, std::vector<float> logits, const Sampling& sampling) {
  Sampler sampler;
  return sampler.sample({logits, {}, 0, {}, &filter}, sampling);
}

TEST(SamplerFilter, AnAllowedTokenCostsOneQuestion) {
  Only filter({3});
  std::vector<float> logits(1000, 0.0F);
  logits[3] = 50;
  EXPECT_EQ(sample_among(filter, logits, plain()).token, 3);
  EXPECT_EQ(filter.most(), 1U);
}

TEST(SamplerFilter, FindsTheAllowedTokenHoweverFarDown) {
  for (const std::int32_t token : {100, 2000, 9000}) {
    Only filter({token});
    const Sampled sampled = sample_among(filter, descending(10000), plain());
    EXPECT_EQ(sampled.token, token);
    EXPECT_FALSE(sampled.stuck);
    EXPECT_EQ(filter.most(), token < 256 ? 256U : token < 4096 ? 4096U : 10000U);
  }
}

TEST(SamplerFilter, SaysWhenNothingIsAllowed) {
  Only filter({});
  EXPECT_TRUE(sample_among(filter, descending(500), plain()).stuck);
  // What a bias forbids is not brought back by being the only one allowed.
  Only one({7});
  Sampling sampling = plain();
  sampling.logit_bias = {{7, -kInf}};
  EXPECT_TRUE(sample_among(one, descending(500), sampling).stuck);
}

TEST(SamplerFilter, GreedyTakesTheBestAllowed) {
  Only filter({9, 5, 70});
  EXPECT_EQ(sample_among(filter, descending(500), plain(0)).token, 5);
}

// Among the allowed tokens the proportions stay as they are without a filter.
TEST(SamplerFilter, KeepsTheProportions) {
  const std::vector<float> logits{1.0F, 0.5F, 2.0F, 0.0F, 1.5F};
  std::map<std::int32_t, int> seen;
  constexpr int kDraws = 20000;
  for (int seed = 0; seed < kDraws; ++seed) {
    Only filter({0, 1, 3});
    Sampling sampling = plain();
    sampling.seed = static_cast<std::uint64_t>(seed);
    ++seen[sample_among(filter, logits, sampling).token];
  }
  const double total = std::exp(1.0) + std::exp(0.5) + 1;
  EXPECT_NEAR(seen[0], kDraws * std::exp(1.0) / total, 300);
  EXPECT_NEAR(seen[1], kDraws * std::exp(0.5) / total, 300);
  EXPECT_NEAR(seen[3], kDraws / total, 300);
  EXPECT_EQ(seen.size(), 3U);
}

}  // namespace
}  // namespace lares::llm
