// The ledger of the host tier: what sequences' caches held and what lies in the host's memory now.
//
// A state stands for the tokens [from, end) of a sequence. It belongs to a job that stepped back
// and comes again, or to nobody: then it serves later prompts that begin with the same blocks. What
// is in front of it must be in the pool when it is put back. Pure bookkeeping.
//
// Invariants (check()):
//   1. bytes() is the sum over all states; after make_room() it is within the budget.
//   2. A state that nobody owns has a key for each of its blocks, and whole ones only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/types.h"

namespace lares::sched {

class HostTier {
 public:
  struct State {
    StateId id{};
    ModelId model{};
    std::uint32_t from = 0, end = 0;  // Tokens; `from` at a block's edge.
    Bytes bytes{};
    bool owned = false;                 // A job comes for it.
    std::vector<std::uint64_t> keys{};  // Of the blocks [0, end); empty if owned.
    std::uint64_t used = 0;             // Tick of last use.
  };

  Bytes budget{};  // 0: nothing is kept.

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return states_.size(); }
  [[nodiscard]] const State* find(StateId id) const;

  // Gives up states that nobody owns, the least recently used first, until so many bytes more are
  // within the budget; appends them to `gone`. False, and nothing given up, if that cannot be.
  bool make_room(Bytes more, std::vector<State>& gone);
  // Takes `state` in under a number not used before, and returns that. REQUIRES: make_room().
  StateId add(State state);
  void set_bytes(StateId id, Bytes bytes);  // What it really takes. Unknown ids are ignored.
  void erase(StateId id);                   // Likewise.
  void erase(ModelId model);                // All of that model.

  // The state that nobody owns whose tokens agree with `keys` longest, beyond `have` blocks by at
  // least `least`, that begins within the first `have` blocks; it becomes the most recently used.
  // `whole`: only if all of it agrees.
  struct Match {
    StateId state;
    std::uint32_t blocks = 0;  // That agree, from position 0 on; 0 if there is none.
    std::uint32_t apart = 0;   // The most that agree with any, of use or not.
  };
  Match match(ModelId model, std::span<const std::uint64_t> keys, std::uint32_t have,
              std::uint32_t least, bool whole);
  // Whether a state that nobody owns holds all these blocks from `from` tokens on (`whole`: and no
  // more); it becomes the most recently used.
  bool holds(ModelId model, std::span<const std::uint64_t> keys, std::uint32_t from, bool whole);

  void check() const;

 private:
  State* find_mutable(StateId id);

  std::vector<State> states_;  // Hundreds: looked through.
  Bytes bytes_;
  std::uint64_t tick_ = 0, last_id_ = 0;
};

}  // namespace lares::sched
