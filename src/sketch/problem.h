// What is wrong with a sketch: a stable code, the place, and the way out. And the limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lares::sketch {

// Where something was written: line and column from 1, columns in code points; 0 = nowhere (made
// by a program). No part of what a sketch says, so any two are equal.
struct Place {
  std::uint32_t line = 0, column = 0;
  friend bool operator==(Place, Place) { return true; }
};

// The checks; docs/sketches.md explains each. Their names are an interface: never renamed.
enum class Check : std::uint8_t {
  L1,  // Syntax.
  L2,  // Too large.
  N1,  // Unknown name.
  N2,  // Used before it is bound, or by itself.
  N3,  // Name taken.
  T1,  // Type.
  T2,  // Latent space.
  T3,  // Noise: clean, or in the middle of its schedule.
  S1,  // Shape.
  P1,  // Precision.
  B1,  // Boundary between latents and pixels.
  C1,  // Computed once.
  C2,  // Cache key.
  M1,  // Memory.
  Q1,  // Batch.
  D1,  // Bitwise sameness.
  E1,  // Price.
};
std::string_view check_name(Check check);

struct Problem {
  Check check = Check::L1;
  Place place;
  std::string message;  // Several lines: what is wrong, then why, then the way out.

  bool operator==(const Problem&) const = default;
};
using Problems = std::vector<Problem>;

// "T2 line 2, column 13: what.\n   Why.\n   The way out."
std::string to_text(const Problem& problem);

// ". Did you mean `x`?", or "" if no candidate is near.
std::string hint(std::string_view word, const std::vector<std::string_view>& candidates);
std::string hint(std::string_view word, std::span<const std::string_view> candidates);

// "a, b or c", each in backticks.
std::string one_of(const std::vector<std::string_view>& words);

struct Limits {
  // Of a sketch's text, and of its JSON. 64 KiB: some thousand lines.
  std::size_t bytes = 65536;
  // Lines, stages and values in all.
  std::uint32_t nodes = 4096;
  // Brackets within each other. The parser, the printer and the planner recurse that deep.
  std::uint32_t depth = 32;
  // Problems told at once; what follows is mostly a consequence.
  std::uint32_t problems = 20;
  // Steps of one `sample`.
  std::uint32_t steps = 500;
  // Pixels of a picture's side.
  std::uint32_t side = 4096;
  // Elements of a list that is known before the sketch runs: seeds, frames.
  std::uint32_t elements = 256;
  // Tokens that one `ask` may write.
  std::uint32_t tokens = 32768;
};

}  // namespace lares::sketch
