// The cells of a simulated KV pool: counted references, lowest free cell first.
//
// Sequences that share a prefix hold the same cells, so that shared ones count once, as in a
// unified llama.cpp context. One owner, one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace lares::engine {

class SimPool {
 public:
  explicit SimPool(std::uint32_t cells);

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(holders_.size()); }
  [[nodiscard]] std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }
  [[nodiscard]] std::uint32_t used() const { return size() - free(); }
  // Highest used cell, plus one.
  [[nodiscard]] std::uint32_t span() const { return top_; }

  // REQUIRES: free() > 0.
  std::uint32_t take();
  // One more holder of a used cell.
  void share(std::uint32_t cell);
  // One holder less; the cell is free when nobody is left.
  void give_back(std::uint32_t cell);

 private:
  std::vector<std::uint32_t> holders_;  // By cell.
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> free_;
  std::uint32_t top_ = 0;  // Highest used cell, plus one.
};

}  // namespace lares::engine
