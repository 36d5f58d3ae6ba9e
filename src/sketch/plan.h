// What the planner makes of a sketch: typed nodes bound to models, with their keys and prices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/types.h"
#include "sketch/problem.h"
#include "sketch/type.h"

namespace lares::sketch {

// Something that a check did or found, which is no fault.
struct Note {
  Check check = Check::C1;
  std::string text;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Invariants: inputs have smaller indices than the node; equal pure nodes are one node.
struct Node {
  std::string op{};  // text, input, lat, list, encode, sample, resize, latent, decode, blend, walk,
                     // ask, embed, chunk, out, keep
  std::string name{};  // What the sketch calls it; "" = nothing.
  Place place{};
  Type type{};
  std::vector<std::uint32_t> inputs{};
  std::string model{}, dtype{};
  Pairs fixed{};   // Static arguments: part of the plan's key and the batch key.
  Pairs at_run{};  // Arguments that may differ from run to run.
  bool pure = true;

  std::string batch_key{};  // "" = runs in no batch, or on no device.
  std::string value_key{};  // "" = none, for the reason in no_key.
  std::string no_key{};
  std::string trajectory_key{};  // Of a `sample`: the same picture, whatever `until`.
  bool cached = false;
  bool needed = false;  // Has to run: something put out or kept needs it, and it is not cached.
  std::uint32_t resumes_at = 0;     // Steps that a checkpoint saves.
  std::uint32_t steps = 0;          // That a `sample` runs, without the checkpoint's.
  std::uint32_t rows = 0;           // Of the U-Net per picture.
  std::uint32_t tile = 0;           // Pixels of a tile's side; 0 = in one piece.
  std::optional<Duration> price{};  // If it runs; nothing = not measured yet.
  Bytes memory{};                   // Working memory, beside the weights.
  std::vector<Note> notes{};
};

struct Choice {
  std::string what{};  // "image model"
  std::string model{};
  std::string why{};
};

struct Plan {
  std::vector<Node> nodes{};
  std::vector<Choice> choices{};
  std::string key{};
  bool exact = false, approx = false;
  Duration price{};                       // Of what has to run and was measured.
  std::vector<std::string> unmeasured{};  // Operations without a price, each once: "sample sd15".
  Bytes memory{};                         // The most that is held at once: weights and buffers.
};

// For people: a line a node, then keys, notes and the price.
std::string to_text(const Plan& plan);
// {"nodes":[{"op","type","batch_key","cached",...}],"price":{...},...}
std::string to_json(const Plan& plan);
// {"errors":[{"code","line","column","message"}]}
std::string to_json(const Problems& problems);

}  // namespace lares::sketch
