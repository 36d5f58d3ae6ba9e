// Chooses the next token from one row of logits: the whole chain, without llama.cpp.
//
// Pure: the result depends on the arguments alone, never on earlier calls, on who shares the batch,
// or on time. A Sampler only keeps scratch memory between calls; one thread.
//
// Order of stages (llama.cpp's, with Gumbel-max instead of its random draw):
//   1. logit bias; with ignore_eos, end-of-generation tokens get -inf
//   2. repeat penalty over the last `penalty_window` tokens, prompt included, as llama.cpp; then
//      frequency and presence penalty over the tokens made so far, prompt excluded, as OpenAI
//   -- `best`, `logprob` and `top` describe the row at this point, at temperature 1 --
//   3. top_k, then top_p, then min_p, all on the distribution at temperature 1
//   4. temperature, and the draw: the token with the greatest (logit / temperature + noise), where
//      noise is Gumbel distributed and a function of (seed, choice, position, token)
// With a filter (a grammar), the token so chosen is held against it first, which nearly always ends
// it. Only a token that is not allowed makes stages 3 and 4 run again, among the allowed ones of
// the 256 best tokens; if there is none, of the 4096 best, then of all. The noise is the same, so
// what comes out is distributed as if the grammar had been there from the start. Whether a token is
// allowed costs far more than its logit, and the other sequences of the step wait for it.
//
// At temperature 0 the best token after stage 2 is taken. Every tie goes to the lower token.
//
// A NaN counts as -inf and +inf as the greatest finite number; if nothing is above -inf, token 0 is
// taken.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace lares::llm {

// Log-probabilities are not below this: a token that cannot be chosen has it, as in OpenAI's API.
inline constexpr float kLogprobMin = -9999.0F;

// Which tokens may come next.
class TokenFilter {
 public:
  virtual ~TokenFilter() = default;
  // Whether it has a say at this position.
  [[nodiscard]] virtual bool applies() const = 0;
  // Leaves in `tokens` those that may come next, in their order.
  virtual void keep_allowed(std::vector<std::int32_t>& tokens) = 0;
};

struct SampleRequest {
  std::span<float> logits;               // One row; changed in place. Not empty.
  std::span<const std::int32_t> tokens;  // The sequence so far: prompt, then what was made.
  std::uint32_t prompt_tokens = 0;
  std::span<const std::int32_t> end_tokens;  // End-of-generation tokens of the vocabulary.
  TokenFilter* filter = nullptr;
};

struct Sampled {
  std::int32_t token = 0;
  float logprob = 0;   // 0 unless wanted.
  bool stuck = false;  // The filter allows nothing at all: the text ends here.
  float best[2] = {0, 0};
  std::vector<engine::TopToken> top;
};

class Sampler {
 public:
  Sampled sample(const SampleRequest& request, const engine::Sampling& sampling);

 private:
  struct Candidate {
    float logit;
    std::int32_t token;
  };

  void apply_penalties(const SampleRequest& request, const engine::Sampling& sampling);
  void penalise_made(const SampleRequest& request, const engine::Sampling& sampling);
  void count(std::span<const std::int32_t> tokens, std::size_t vocabulary);
  void forget_counts();
  void select_best(std::span<const float> logits, std::size_t n);
  void select_above(std::span<const float> logits, float least);
  void select_nucleus(std::span<const float> logits, float max, const engine::Sampling& sampling);
  void cut_top_p(float top_p, double total, float max);
  void cut_min_p(float least);
  // Stages 3 and 4 among what the filter allows. False: nothing.
  bool choose_allowed(const SampleRequest& request, const engine::Sampling& sampling,
                      std::uint64_t noise, std::int32_t& token);
  // Leaves in candidates_ the allowed ones of the n best.
  void select_allowed(const SampleRequest& request, std::size_t n);
  // Stages 3 and 4; candidates_ holds at least the top_k best.
  std::int32_t choose(std::span<const float> logits, const engine::Sampling& sampling,
                      std::uint64_t noise);
  // Draws from the candidates, or from the whole row where that is not empty.
  std::int32_t draw(std::span<const float> logits, float max, const engine::Sampling& sampling,
                    std::uint64_t noise);

  std::vector<Candidate> candidates_;  // Best first.
  std::vector<std::uint32_t> counts_;  // Per token; all zero between uses.
  std::vector<std::int32_t> counted_;  // Which of them are not.
  std::vector<std::int32_t> asked_;    // Tokens on their way through the filter.
};

// The stream of noise of one draw; see gumbel.
std::uint64_t noise_key(std::uint64_t seed, std::uint32_t choice, std::uint64_t position);

// Standard Gumbel noise for a token, from that stream.
double gumbel(std::uint64_t key, std::int32_t token);

}  // namespace lares::llm
