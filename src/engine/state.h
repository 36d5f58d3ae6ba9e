// What the KV cache holds for some of a sequence's tokens, copied to the host's memory: a state.
//
// It has a number that the caller chooses. It outlives the sequence and goes with the model; any
// sequence that begins with the same tokens can take it back instead of computing them. A state is
// never needed: its tokens can always be computed.
#pragma once

#include <cstdint>

#include "core/types.h"

namespace lares::engine {

// Copies what the cache holds at [from, from + tokens) of a sequence; the sequence stays as it is.
// Where memory cannot be cut anywhere, only all that is computed can be copied.
struct Save {
  ModelId model;
  SeqId seq;
  StateId state;  // Not in use.
  std::uint32_t from = 0, tokens = 0;
};

// Gives a sequence what the state holds, up to the position `end`: the sequence has computed what
// is in front of it, no more, and knows the same tokens and at least one beyond. The state stays.
struct Restore {
  ModelId model;
  SeqId seq;
  StateId state;
  std::uint32_t end = 0;
};

struct Saved {
  ModelId model;
  StateId state;
  Bytes bytes;
  Duration took{};
};

}  // namespace lares::engine
