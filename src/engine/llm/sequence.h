// The engine's book of one sequence: its tokens, and how many of them the KV cache holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/llm/grammar.h"

namespace lares::llm {

// Invariants: computed <= tokens.size(); a sequence that has not ended has at least one token that
// is not computed (the prompt's next one, or the one just sampled).
struct Sequence {
  bool open = false;
  bool ended = false;  // An end-of-generation token was sampled.
  std::vector<std::int32_t> tokens;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t computed = 0;
  engine::Sampling sampling;
  std::unique_ptr<Grammar> grammar;  // Nothing: anything goes.

  [[nodiscard]] bool can_run() const { return open && !ended; }

  // How many of `wanted` tokens can be computed, with `context` the most that a sequence may hold.
  [[nodiscard]] std::uint32_t step(std::uint32_t wanted, std::uint32_t context) const {
    const auto known = static_cast<std::uint32_t>(tokens.size()) - computed;
    return std::min({wanted, known, context > computed ? context - computed : 0U});
  }

  // Whether computing `n` more tokens reaches the last known one, whose row is then sampled.
  [[nodiscard]] bool samples_after(std::uint32_t n) const {
    return n > 0 && computed + n == tokens.size();
  }
};

}  // namespace lares::llm
