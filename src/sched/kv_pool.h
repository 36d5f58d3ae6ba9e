// The ledger of one KV pool: which sequence holds which blocks, and who shares them.
//
// Pure bookkeeping in blocks of kBlockTokens cells. A sequence is live (a job runs in it) or cached
// (it ended, and its front may serve a later prompt). Blocks are counted, so that a prefix shared
// by many sequences takes its cells once.
//
// Invariants (check()):
//   1. A block's reference count is the number of sequences that hold it.
//   2. free + held blocks = all blocks; none is negative.
//   3. `reclaimable` = blocks held by cached sequences alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/types.h"

namespace lares::sched {

class KvPool {
 public:
  enum class State : std::uint8_t { Free, Live, Cached };

  // `tokens` is rounded down to whole blocks.
  KvPool(std::uint32_t tokens, std::uint32_t sequences);

  [[nodiscard]] std::uint32_t blocks() const { return static_cast<std::uint32_t>(refs_.size()); }
  [[nodiscard]] std::uint32_t blocks_free() const {
    return static_cast<std::uint32_t>(free_.size());
  }
  [[nodiscard]] std::uint32_t blocks_reclaimable() const { return reclaimable_; }
  [[nodiscard]] std::uint32_t sequences_cached() const { return cached_; }
  [[nodiscard]] bool has_free_sequence() const { return live_ + cached_ < sequences_.size(); }
  [[nodiscard]] State state(SeqId seq) const { return sequences_[seq.value].state; }
  [[nodiscard]] std::uint32_t held(SeqId seq) const;
  // Blocks at the front of the sequence that others hold, too.
  [[nodiscard]] std::uint32_t shared_front(SeqId seq) const;
  // Of its first blocks, those that are known.
  [[nodiscard]] std::span<const std::uint64_t> keys(SeqId seq) const {
    return sequences_[seq.value].keys;
  }

  // A free sequence becomes live and shares the first `shared` blocks of `from`. The lowest free
  // id. REQUIRES: has_free_sequence(), `from` holds that many blocks.
  SeqId open(SeqId from, std::uint32_t shared);
  // Takes free blocks until the sequence holds `want`; false (and nothing taken) if too few are
  // free.
  bool grow(SeqId seq, std::uint32_t want);
  // A live sequence becomes cached: it keeps its blocks, as the engine keeps its cells, and the
  // first `keys.size()` of them can be found by those keys.
  void cache(SeqId seq, std::span<const std::uint64_t> keys);
  // Gives everything back.
  void drop(SeqId seq);
  void drop_all();

  // Keys of a live sequence's blocks that are computed; so that others can share them meanwhile.
  void set_keys(SeqId seq, std::span<const std::uint64_t> keys);

  // The sequence whose known keys agree with `keys` longest from the front; 0 blocks if none does.
  // A cached sequence that matches becomes the most recently used.
  struct Match {
    SeqId seq;
    std::uint32_t blocks = 0;
  };
  Match match(std::span<const std::uint64_t> keys);

  // The cached sequence not used for longest, other than `spare`.
  [[nodiscard]] std::optional<SeqId> least_recent_cached(std::optional<SeqId> spare) const;
  // Whether a cached sequence has matched since it was cached.
  [[nodiscard]] bool was_useful(SeqId seq) const { return sequences_[seq.value].useful; }

  void check() const;

 private:
  struct Sequence {
    State state = State::Free;
    std::uint64_t used = 0;             // Tick of last use.
    bool useful = false;                // Matched since it was cached.
    std::vector<std::uint32_t> blocks;  // In order of position.
    std::vector<std::uint64_t> keys;    // Of the first keys.size() blocks.
  };
  struct Refs {
    std::uint32_t live = 0, cached = 0;
  };
  void hold(std::uint32_t block, State as);
  void let_go(std::uint32_t block, State as);

  std::vector<Refs> refs_;           // By block.
  std::vector<std::uint32_t> free_;  // Blocks nobody holds.
  std::vector<Sequence> sequences_;  // By SeqId.
  std::uint32_t live_ = 0, cached_ = 0, reclaimable_ = 0;
  std::uint64_t tick_ = 0;
};

}  // namespace lares::sched
