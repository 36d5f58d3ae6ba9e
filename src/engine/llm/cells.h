// A mirror of where llama.cpp puts tokens in a unified KV pool.
//
// The library works over all cells up to the highest used one, so that number is part of what a
// step costs, but there is no call that tells it. This follows llama_kv_cache::find_slot of the
// pinned release (single stream, no sliding window): cells are taken one by one from a head that
// moves forward, goes back to what was freed, and starts again from 0 when far beyond what is used.
// It decides nothing: if the mirror and the library ever differ (in a pool of another kind they
// do), only a reported number is off. Pure; one thread.
//
// Invariants: a cell's count is the number of sequences that hold it; used() counts the others than
// 0.
#pragma once

#include <cstdint>
#include <vector>

#include "core/types.h"

namespace lares::llm {

class Cells {
 public:
  Cells() = default;
  Cells(std::uint32_t cells, std::uint32_t sequences);

  // Called for each token of a batch in its order, after `begin` with the number of them.
  void begin(std::uint32_t tokens);
  void take(SeqId seq);
  // `to` comes to hold `tokens` cells of `from`, too, those from the `first` on.
  void share(SeqId from, SeqId to, std::uint32_t tokens, std::uint32_t first = 0);
  void drop(SeqId seq);

  [[nodiscard]] std::uint32_t used() const { return used_; }
  [[nodiscard]] std::uint32_t span() const { return span_; }  // Highest used cell + 1.

 private:
  std::vector<std::uint16_t> counts_;                  // By cell.
  std::vector<std::vector<std::uint32_t>> sequences_;  // Cells in order of position.
  std::uint32_t head_ = 0, used_ = 0, span_ = 0;
};

}  // namespace lares::llm
