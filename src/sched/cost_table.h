// How long a step takes, by what is in it: one table per (model, device, threads).
//
//   decodes alone   decodes(n) + decode_attended * positions
//   prompts alone   prompts(n) + prompt_attended * positions + prompt_pass; short_attended in place
//                   of prompt_attended in a step of fewer tokens than a tile
//   both            the sum of the two, where the prompts' tokens go on along their curve from the
//                   decodes' number, for what a step costs once it costs once
//                   + mixed * positions of the decodes, unless it has fewer tokens than a tile
//   and always      span * tokens * cells
//
// The curves are piecewise linear over powers of two: they hold the shape that no plain line has
// (two decodes cost nearly twice one, sixteen about four; BENCHMARKS.md). They are two because a
// decode works over the whole vocabulary, and a prompt's token does not. `positions` are the KV
// positions that the step's tokens attend to, summed over tokens: what a paged kernel reads.
// A kernel that takes a step's tokens in tiles reads each position once for all tokens of a tile,
// and with fewer tokens than a tile it does not. `mixed`: for a tile that holds decodes it works
// over all positions of theirs for every token of the tile; then two steps are quicker than one.
// `cells` is the pool's span: what a unified pool's kernel reads for every token.
//
// Measured by a short probe when a model is first loaded, kept by the server, refined by every
// step. Plain value; integers only, so that decisions are the same on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/types.h"

namespace lares::sched {

// What a step's time depends on.
struct StepShape {
  std::uint32_t tokens = 0;    // All of them.
  std::uint32_t prompt = 0;    // Those of prompts; the others are decodes.
  std::uint64_t attended = 0;  // Positions attended, summed over tokens.
  std::uint64_t decoded = 0;   // Those of them that decodes attend to.
  std::uint32_t span = 0;      // Cells of the pool in use.

  // `tokens` more, of one sequence, from position `from` on.
  void add(std::uint32_t from, std::uint32_t tokens);
  // With so many more of a prompt, and the cells for them.
  [[nodiscard]] StepShape with_prompt(std::uint32_t from, std::uint32_t tokens) const;
  void remove(std::uint32_t from, std::uint32_t tokens, bool prompt);
};

// From so many tokens of a step on, ggml's kernels for processors compute attention in tiles.
inline constexpr std::uint32_t kTileTokens = 64;

// Of what a pass over prompts costs extra: the least that a step spends on them, itself included.
inline constexpr int kPassBudget = 4;

// Times by number of tokens, in nanoseconds, linear between powers of two.
class CostCurve {
 public:
  static constexpr std::size_t kKnots = 13;  // 1, 2, 4 ... 4096 tokens.
  using Knots = std::array<std::int64_t, kKnots>;
  static constexpr std::uint32_t knot_tokens(std::size_t knot) { return 1U << knot; }

  // 0 = not measured, drawn on from the knots before; the first is. Made non-decreasing.
  explicit CostCurve(Knots measured);

  [[nodiscard]] std::int64_t at(std::uint32_t tokens) const;
  // Steps of so many tokens took `off` longer than `predicted`: the nearest knot moves a 64th
  // towards it (more for the first few), so that it settles on the median, and never beyond eight
  // times what the probe said. Knots that no step came near go along.
  void observe(std::uint32_t tokens, std::int64_t predicted, std::int64_t off);

  [[nodiscard]] const Knots& knots() const { return knots_; }

 private:
  void estimate_unseen();

  Knots knots_{};
  Knots probed_{};                            // As created: bounds what observing may do.
  std::array<std::uint16_t, kKnots> seen_{};  // Observations, up to some.
};

class CostTable {
 public:
  static constexpr std::size_t kKnots = CostCurve::kKnots;
  static constexpr std::uint32_t knot_tokens(std::size_t knot) {
    return CostCurve::knot_tokens(knot);
  }

  // A stand-in until something is measured: 10 ms and half a millisecond a token.
  CostTable();
  // Errors: Invalid, if a curve's first knot is not measured. One curve: decodes cost what a
  // prompt's tokens do.
  static Result<CostTable> create(const CostCurve::Knots& both);
  static Result<CostTable> create(const CostCurve::Knots& decodes, const CostCurve::Knots& prompts);
  // From a probe: decodes alone and prompts alone of powers of two with nothing to attend to but
  // themselves; and at most one each that attends far back, of decodes alone, of prompts alone, of
  // both. Errors: Invalid.
  struct Probe {
    StepShape shape{};
    Duration took{};
  };
  static Result<CostTable> fit(std::span<const Probe> steps);

  // All in picoseconds: for each position attended by a decode, by a prompt's token, in a step of
  // fewer tokens than a tile, by a decode beside prompts (beyond the first).
  std::int64_t decode_attended_ps = 0, prompt_attended_ps = 0, short_attended_ps = 0, mixed_ps = 0;
  std::int64_t span_ps = 0;         // For each token and cell of the span.
  std::int64_t prompt_pass_ns = 0;  // Once, in a step that reads any prompt.

  [[nodiscard]] Duration time(const StepShape& shape) const {
    return Duration(time_of(shape, shape.tokens >= kTileTokens));
  }
  // What a step that takes `whole` nanoseconds would be shorter by without a part of it, for
  // splitting its time: computed in tiles as it was. Never negative.
  [[nodiscard]] std::int64_t marginal(const StepShape& shape, std::int64_t whole,
                                      std::uint32_t from, std::uint32_t tokens, bool prompt) const;
  // The most prompt tokens, up to `most`, that can join a step of that shape within the budget,
  // when the chunk's first token attends to `from` positions.
  [[nodiscard]] std::uint32_t prompt_within(Duration budget, const StepShape& shape,
                                            std::uint32_t from, std::uint32_t most) const;

  // The tokens that make the chunk fill a tile, if that reads a token in two thirds of the time at
  // most, and the step takes half as long again at most; else as many as given. `most` as above.
  [[nodiscard]] std::uint32_t fill_tile(const StepShape& shape, std::uint32_t from,
                                        std::uint32_t tokens, std::uint32_t most) const;
  [[nodiscard]] bool has_tiles() const { return short_attended_ps > prompt_attended_ps; }
  // Whether so many tokens of prompt are better read in a step of their own than beside those
  // decodes.
  [[nodiscard]] bool better_apart(const StepShape& decodes, std::uint32_t prompt) const;
  // Decodes, up to `most`, from which on more of them in a step make each little cheaper: at most
  // three quarters dearer than at best.
  [[nodiscard]] std::uint32_t knee(std::uint32_t most) const;

  // A step of that shape took so long. One slow step on a busy machine moves little: of a step that
  // attends far back what attending costs, else a curve (CostCurve::observe); of a step of both,
  // what mixing costs.
  void observe(const StepShape& shape, Duration took);

  // "1:6300000,2:11900000,...,p1:...,attended=0,prompt_attended=0,short_attended=0,mixed=0,span=0,
  // prompt_pass=0"; reads back equal, refinement included, limits anew. Without the prompts' curve,
  // or what they pay to attend, they cost what decodes do.
  [[nodiscard]] std::string to_text() const;
  static Result<CostTable> parse(std::string_view text);

  bool operator==(const CostTable& other) const;

 private:
  CostTable(CostCurve decodes, CostCurve prompts) : decodes_(decodes), prompts_(prompts) {}
  [[nodiscard]] std::int64_t time_of(const StepShape& shape, bool tiles) const;

  CostCurve decodes_, prompts_;
  // Observations of what is not on a curve, up to some.
  std::uint16_t seen_decode_ = 0, seen_prompt_ = 0, seen_short_ = 0, seen_mixed_ = 0;
};

// Attended positions of a chunk of `tokens` that begins at position `from`.
constexpr std::uint64_t attended_by(std::uint32_t from, std::uint32_t tokens) {
  return std::uint64_t{from} * tokens + std::uint64_t{tokens} * (tokens + 1) / 2;
}

}  // namespace lares::sched
