#include "engine/llm/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/assert.h"
#include "core/hash.h"

namespace lares::llm {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kGreatest = std::numeric_limits<float>::max();
constexpr double kLn2 = 0.693147180559945309;

// With up to this many candidates kept by top_k a heap is filled in one scan of the row; beyond,
// the whole row is sorted, which nobody asks for in earnest.
constexpr std::size_t kHeapMax = 4096;

// How many of the best tokens are held against a grammar before more of them are.
constexpr std::size_t kAllowedFirst = 256;

float tamed(float x) {
  if (std::isnan(x)) return kNothing;
  return std::min(x, kGreatest);
}

// Rows are looked at in blocks of this many, four numbers an instruction: with a vocabulary of
// 152,000 and 16 rows a step, the scan is what sampling costs.
constexpr std::size_t kBlock = 16;
using Four = float __attribute__((vector_size(16)));  // g++ and clang.

Four load(const float* x) {
  Four four;
  std::memcpy(&four, x, sizeof four);
  return four;
}

// The greatest of a block without NaNs.
float block_max(const float* x) {
  const Four a = load(x), b = load(x + 4), c = load(x + 8), d = load(x + 12);
  const Four ab = a > b ? a : b;
  const Four cd = c > d ? c : d;
  const Four all = ab > cd ? ab : cd;
  return std::max(std::max(all[0], all[1]), std::max(all[2], all[3]));
}

// Whether a row holds a NaN or +inf: times 0 these give NaN, which a sum keeps. -inf, which is
// legal, is lifted first.
bool is_wild(std::span<const float> row) {
  constexpr Four kLowest = {-kGreatest, -kGreatest, -kGreatest, -kGreatest};
  Four sum = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= row.size(); i += 4) {
    const Four x = load(&row[i]);
    sum += (x < kLowest ? kLowest : x) * 0.0F;
  }
  float rest = 0;
  for (; i < row.size(); ++i) rest += std::max(row[i], -kGreatest) * 0.0F;
  return !(sum[0] + sum[1] + sum[2] + sum[3] + rest == 0);
}

// log(sum(exp(row - max))).
double log_total(std::span<const float> row, float max) {
  double total = 0;
  for (const float x : row) total += std::exp(x - max);
  return std::log(total);
}

// The 52 top bits of the token's number in the key's SplitMix64 sequence.
std::uint64_t noise_bits(std::uint64_t key, std::int32_t token) {
  return mix64(key + static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)) *
                         0x9e3779b97f4a7c15ULL);
}

double gumbel_of_bits(std::uint64_t bits) {
  // Uniform in (0, 1), both ends excluded; -log1p(-u) is exponential, its negative log is Gumbel.
  const double u = (static_cast<double>(bits >> 12U) + 0.5) * 0x1p-52;
  return -std::log(-std::log1p(-u));
}

// Never less than gumbel_of_bits, without a logarithm: u >= 2^-(zeros + 1).
double gumbel_bound(std::uint64_t bits) {
  return (std::min(std::countl_zero(bits), 52) + 1.0) * kLn2;
}

}  // namespace

std::uint64_t noise_key(std::uint64_t seed, std::uint32_t choice, std::uint64_t position) {
  return hash_combine(hash_combine(seed, choice), position);
}

double gumbel(std::uint64_t key, std::int32_t token) {
  return gumbel_of_bits(noise_bits(key, token));
}

void Sampler::count(std::span<const std::int32_t> tokens, std::size_t vocabulary) {
  if (counts_.size() < vocabulary) counts_.resize(vocabulary, 0);
  for (const std::int32_t token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocabulary) continue;
    if (counts_[static_cast<std::size_t>(token)]++ == 0) counted_.push_back(token);
  }
}

void Sampler::forget_counts() {
  for (const std::int32_t token : counted_) counts_[static_cast<std::size_t>(token)] = 0;
  counted_.clear();
}

void Sampler::penalise_made(const SampleRequest& request, const engine::Sampling& sampling) {
  const std::size_t prompt = std::min<std::size_t>(request.prompt_tokens, request.tokens.size());
  count(request.tokens.subspan(prompt), request.logits.size());
  for (const std::int32_t token : counted_) {
    float& x = request.logits[static_cast<std::size_t>(token)];
    const auto times = static_cast<float>(counts_[static_cast<std::size_t>(token)]);
    x = tamed(x - times * sampling.frequency_penalty - sampling.presence_penalty);
  }
  forget_counts();
}

void Sampler::apply_penalties(const SampleRequest& request, const engine::Sampling& sampling) {
  const std::size_t size = request.logits.size();
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (token < 0 || static_cast<std::size_t>(token) >= size) continue;
    float& x = request.logits[static_cast<std::size_t>(token)];
    x = tamed(x + bias);
  }
  if (sampling.ignore_eos) {
    for (const std::int32_t token : request.end_tokens) {
      if (token >= 0 && static_cast<std::size_t>(token) < size) {
        request.logits[static_cast<std::size_t>(token)] = kNothing;
      }
    }
  }
  if (sampling.repeat_penalty != 1.0F && sampling.repeat_penalty > 0) {
    const std::size_t n = std::min<std::size_t>(sampling.penalty_window, request.tokens.size());
    count(request.tokens.last(n), size);
    for (const std::int32_t token : counted_) {
      float& x = request.logits[static_cast<std::size_t>(token)];
      x = tamed(x <= 0 ? x * sampling.repeat_penalty : x / sampling.repeat_penalty);
    }
    forget_counts();
  }
  if (sampling.presence_penalty != 0 || sampling.frequency_penalty != 0) {
    penalise_made(request, sampling);
  }
}

// The n best tokens, best first. The heap's root is the worst that is kept; a row is read in token
// order, so that an equal logit never displaces a lower token.
void Sampler::select_best(std::span<const float> logits, std::size_t n) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  candidates_.clear();
  n = std::min(n, logits.size());
  if (n == 0) return;
  if (n > kHeapMax) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      candidates_.push_back({logits[i], static_cast<std::int32_t>(i)});
    }
    std::sort(candidates_.begin(), candidates_.end(), better);
    candidates_.resize(n);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    candidates_.push_back({logits[i], static_cast<std::int32_t>(i)});
  }
  std::make_heap(candidates_.begin(), candidates_.end(), better);
  const auto offer = [&](std::size_t i) {
    if (!(logits[i] > candidates_.front().logit)) return;
    std::pop_heap(candidates_.begin(), candidates_.end(), better);
    candidates_.back() = {logits[i], static_cast<std::int32_t>(i)};
    std::push_heap(candidates_.begin(), candidates_.end(), better);
  };
  std::size_t i = n;
  for (; i + kBlock <= logits.size(); i += kBlock) {
    if (!(block_max(&logits[i]) > candidates_.front().logit)) continue;
    for (std::size_t j = i; j < i + kBlock; ++j) offer(j);
  }
  for (; i < logits.size(); ++i) offer(i);
  std::sort_heap(candidates_.begin(), candidates_.end(), better);
}

// Every token of at least that logit, best first.
void Sampler::select_above(std::span<const float> logits, float least) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) candidates_.push_back({logits[i], static_cast<std::int32_t>(i)});
  }
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  });
}

// Keeps the shortest run of best candidates whose probability reaches top_p; `total` is the sum of
// exp(logit - max) over everything that top_k left.
void Sampler::cut_top_p(float top_p, double total, float max) {
  double sum = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    sum += std::exp(candidates_[i].logit - max);
    if (sum >= static_cast<double>(top_p) * total) {
      candidates_.resize(i + 1);
      return;
    }
  }
}

void Sampler::cut_min_p(float least) {
  std::size_t keep = 1;  // The best token always stays.
  while (keep < candidates_.size() && candidates_[keep].logit >= least) ++keep;
  candidates_.resize(std::min(keep, candidates_.size()));
}

// top_p over the whole vocabulary without sorting it: only tokens near the best can be in the
// nucleus, so they are gathered within a distance that grows until the nucleus is complete. Where
// min_p applies too it bounds the distance, because both keep a run of the best tokens.
void Sampler::select_nucleus(std::span<const float> logits, float max,
                             const engine::Sampling& sampling) {
  const double total = std::exp(log_total(logits, max));
  const float farthest = sampling.min_p > 0 ? std::max(0.0F, -std::log(sampling.min_p)) : kGreatest;
  for (float distance = 8;; distance *= 2) {
    const float reach = std::min(distance, farthest);
    select_above(logits, std::max(max - reach, -kGreatest));
    double sum = 0;
    for (const Candidate& c : candidates_) sum += std::exp(c.logit - max);
    if (sum >= static_cast<double>(sampling.top_p) * total || reach >= farthest || reach > 256)
      break;
  }
  cut_top_p(sampling.top_p, total, max);
}

std::int32_t Sampler::draw(std::span<const float> logits, float max,
                           const engine::Sampling& sampling, std::uint64_t key) {
  const double cold = 1.0 / static_cast<double>(sampling.temperature);
  double best = -std::numeric_limits<double>::infinity();
  std::int32_t token = -1;
  // Most tokens are ruled out by the bound and cost no logarithm.
  const auto consider = [&](float logit, std::int32_t id) {
    if (!(logit > kNothing)) return;
    const double warm = (static_cast<double>(logit) - static_cast<double>(max)) * cold;
    const std::uint64_t bits = noise_bits(key, id);
    if (warm + gumbel_bound(bits) < best) return;
    const double score = warm + gumbel_of_bits(bits);
    if (score > best || (score == best && id < token)) {
      best = score;
      token = id;
    }
  };
  if (logits.empty()) {
    for (const Candidate& c : candidates_) consider(c.logit, c.token);
  } else {
    for (std::size_t i = 0; i < logits.size(); ++i)
      consider(logits[i], static_cast<std::int32_t>(i));
  }
  return std::max(token, 0);
}

std::int32_t Sampler::choose(std::span<const float> logits, const engine::Sampling& sampling,
                             std::uint64_t key) {
  const float max = candidates_.front().logit;
  const std::size_t top_k = sampling.top_k;
  const bool top_p = sampling.top_p < 1;
  const bool min_p = sampling.min_p > 0;
  if (top_k == 0 && !top_p && !min_p) return draw(logits, max, sampling, key);

  const float least = min_p ? max + std::log(sampling.min_p) : kNothing;
  if (top_k > 0) {
    candidates_.resize(std::min(candidates_.size(), top_k));
    if (top_p) {
      double total = 0;
      for (const Candidate& c : candidates_) total += std::exp(c.logit - max);
      cut_top_p(sampling.top_p, total, max);
    }
  } else if (top_p) {
    select_nucleus(logits, max, sampling);
  } else {
    select_above(logits, std::min(least, max));
  }
  if (min_p) cut_min_p(least);
  return draw({}, max, sampling, key);
}

void Sampler::select_allowed(const SampleRequest& request, std::size_t n) {
  const bool whole = n >= request.logits.size();
  if (whole) {  // Sorted once few are left.
    candidates_.clear();
    for (std::size_t i = 0; i < request.logits.size(); ++i) {
      candidates_.push_back({request.logits[i], static_cast<std::int32_t>(i)});
    }
  } else {
    select_best(request.logits, n);
  }
  std::erase_if(candidates_, [](const Candidate& c) { return !(c.logit > kNothing); });
  asked_.clear();
  for (const Candidate& c : candidates_) asked_.push_back(c.token);
  request.filter->keep_allowed(asked_);
  auto allowed = asked_.begin();
  std::erase_if(candidates_, [&](const Candidate& c) {
    if (allowed == asked_.end() || *allowed != c.token) return true;
    ++allowed;
    return false;
  });
  if (!whole) return;
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  });
}

bool Sampler::choose_allowed(const SampleRequest& request, const engine::Sampling& sampling,
                             std::uint64_t key, std::int32_t& token) {
  for (const std::size_t n : {kAllowedFirst, kHeapMax, request.logits.size()}) {
    select_allowed(request, n);
    if (!candidates_.empty()) break;
    if (n >= request.logits.size()) return false;
  }
  if (!(sampling.temperature > 0)) {
    token = candidates_.front().token;
    return true;
  }
  const float max = candidates_.front().logit;
  if (sampling.top_k > 0) {
    candidates_.resize(std::min<std::size_t>(candidates_.size(), sampling.top_k));
  }
  if (sampling.top_p < 1) {
    double total = 0;
    for (const Candidate& c : candidates_) total += std::exp(c.logit - max);
    cut_top_p(sampling.top_p, total, max);
  }
  if (sampling.min_p > 0) cut_min_p(max + std::log(sampling.min_p));
  token = draw({}, max, sampling, key);
  return true;
}

Sampled Sampler::sample(const SampleRequest& request, const engine::Sampling& sampling) {
  const std::span<float> logits = request.logits;
  LARES_ASSERT(!logits.empty(), "a row of logits has no entries");
  if (is_wild(logits)) {
    for (float& x : logits) x = tamed(x);
  }
  apply_penalties(request, sampling);

  const bool greedy = !(sampling.temperature > 0);
  const std::size_t top_k = sampling.top_k;
  const std::size_t wanted = std::max<std::size_t>(2, sampling.logprobs);
  select_best(logits, greedy ? wanted : std::max(wanted, top_k));
  const float max = candidates_.front().logit;

  Sampled out;
  out.best[0] = max;
  out.best[1] = candidates_.size() > 1 ? candidates_[1].logit : kNothing;
  const bool logprobs = sampling.want_logprob || sampling.logprobs > 0;
  const double log_sum = logprobs && max > kNothing ? log_total(logits, max) : 0;
  const auto logprob = [&](float logit) {
    if (!(max > kNothing)) return kLogprobMin;
    return std::max(kLogprobMin, static_cast<float>(static_cast<double>(logit) - max - log_sum));
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(sampling.logprobs, candidates_.size()); ++i) {
    out.top.push_back({candidates_[i].token, logprob(candidates_[i].logit)});
  }

  const std::uint64_t key = noise_key(sampling.seed, sampling.choice, request.tokens.size());
  out.token =
      greedy || !(max > kNothing) ? candidates_.front().token : choose(logits, sampling, key);
  if (request.filter != nullptr && request.filter->applies()) {
    asked_.assign(1, out.token);
    request.filter->keep_allowed(asked_);
    out.stuck = asked_.empty() && !choose_allowed(request, sampling, key, out.token);
  }
  if (logprobs) out.logprob = logprob(logits[static_cast<std::size_t>(out.token)]);
  return out;
}

}  // namespace lares::llm
