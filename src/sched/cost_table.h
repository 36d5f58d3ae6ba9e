// How long a step takes, by what is in it: one table per (model, device, threads).
//
//   time = curve(tokens) + attended * positions + span * tokens * cells + prompt_pass (if any
//   prompt)
//
// `curve` is piecewise linear over powers of two: it holds the shape that no plain line has (two
// decodes cost nearly twice one, sixteen about four; BENCHMARKS.md). `positions` are the KV
// positions that the step's tokens attend to, summed over tokens: what a paged kernel reads.
// `cells` is the pool's span: what a unified pool's kernel reads for every token.
//
// Measured by a short probe when a model is first loaded, kept by the server, refined by every
// step. Plain value; integers only, so that decisions are the same on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/types.h"

namespace lares::sched {

// What a step's time depends on.
struct StepShape {
  std::uint32_t tokens = 0;    // All of them.
  std::uint32_t prompt = 0;    // Those of prompts.
  std::uint64_t attended = 0;  // Positions attended, summed over tokens.
  std::uint32_t span = 0;      // Cells of the pool in use.
};

// Of what a pass over prompts costs extra: the least that a step spends on them, itself included.
inline constexpr int kPassBudget = 4;

class CostTable {
 public:
  static constexpr std::size_t kKnots = 13;  // 1, 2, 4 ... 4096 tokens.
  static constexpr std::uint32_t knot_tokens(std::size_t knot) { return 1U << knot; }

  // A stand-in until something is measured: 10 ms and half a millisecond a token.
  CostTable();
  // `curve` in nanoseconds, by knot; 0 = not measured, drawn on from the knots before. Times are
  // made non-decreasing. Errors: Invalid, if the first knot is not measured.
  static Result<CostTable> create(const std::array<std::int64_t, kKnots>& curve);

  std::int64_t attended_ps = 0;     // Picoseconds for each attended position.
  std::int64_t span_ps = 0;         // Picoseconds for each token and cell of the span.
  std::int64_t prompt_pass_ns = 0;  // Once, in a step that reads any prompt.

  [[nodiscard]] Duration time(const StepShape& shape) const;
  // The most prompt tokens, up to `most`, that can join a step of that shape within the budget,
  // when the chunk's first token attends to `from` positions.
  [[nodiscard]] std::uint32_t prompt_within(Duration budget, StepShape shape, std::uint32_t from,
                                            std::uint32_t most) const;

  // A step of that shape took so long. One slow step on a busy machine moves the curve little: the
  // nearest knot moves a 64th towards it (more for the first few), so that it settles on the
  // median, and never beyond eight times what the probe said. Knots that no step came near go
  // along.
  void observe(const StepShape& shape, Duration took);

  // "1:6300000,2:11900000,...,attended=0,span=0,prompt_pass=0"; reads back equal, refinement
  // included, limits anew.
  [[nodiscard]] std::string to_text() const;
  static Result<CostTable> parse(std::string_view text);

  bool operator==(const CostTable& other) const;

 private:
  [[nodiscard]] std::int64_t curve(std::uint32_t tokens) const;
  void estimate_unseen();

  std::array<std::int64_t, kKnots> knots_{};   // Nanoseconds.
  std::array<std::int64_t, kKnots> probed_{};  // As created: bounds what observing may do.
  std::array<std::uint16_t, kKnots> seen_{};   // Observations, up to some.
};

// Attended positions of a chunk of `tokens` that begins at position `from`.
constexpr std::uint64_t attended_by(std::uint32_t from, std::uint32_t tokens) {
  return std::uint64_t{from} * tokens + std::uint64_t{tokens} * (tokens + 1) / 2;
}

}  // namespace lares::sched
