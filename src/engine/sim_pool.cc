#include "engine/sim_pool.h"

#include <algorithm>

#include "core/assert.h"

namespace lares::engine {

SimPool::SimPool(std::uint32_t cells) : holders_(cells, 0) {
  for (std::uint32_t cell = 0; cell < cells; ++cell) free_.push(cell);
}

std::uint32_t SimPool::take() {
  LARES_ASSERT(!free_.empty(), "the pool of {} cells is full", size());
  const std::uint32_t cell = free_.top();
  free_.pop();
  holders_[cell] = 1;
  top_ = std::max(top_, cell + 1);
  return cell;
}

void SimPool::share(std::uint32_t cell) {
  LARES_ASSERT(holders_[cell] > 0, "cell {} is free", cell);
  ++holders_[cell];
}

void SimPool::give_back(std::uint32_t cell) {
  LARES_ASSERT(holders_[cell] > 0, "cell {} is free", cell);
  if (--holders_[cell] > 0) return;
  free_.push(cell);
  while (top_ > 0 && holders_[top_ - 1] == 0) --top_;
}

}  // namespace lares::engine
