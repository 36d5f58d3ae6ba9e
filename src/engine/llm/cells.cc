#include "engine/llm/cells.h"

#include <algorithm>

namespace lares::llm {

Cells::Cells(std::uint32_t cells, std::uint32_t sequences)
    : counts_(cells, 0), sequences_(sequences) {}

void Cells::begin(std::uint32_t tokens) {
  if (head_ > used_ + 2 * tokens) head_ = 0;
}

void Cells::take(SeqId seq) {
  const auto size = static_cast<std::uint32_t>(counts_.size());
  if (used_ >= size) return;
  if (head_ >= size) head_ = 0;
  while (counts_[head_] != 0) head_ = head_ + 1 == size ? 0 : head_ + 1;
  counts_[head_] = 1;
  sequences_[seq.value].push_back(head_);
  ++used_;
  ++head_;
  span_ = std::max(span_, head_);
}

void Cells::share(SeqId from, SeqId to, std::uint32_t tokens, std::uint32_t first) {
  const std::vector<std::uint32_t>& source = sequences_[from.value];
  const auto end = std::min<std::size_t>(std::size_t{first} + tokens, source.size());
  for (std::size_t i = first; i < end; ++i) {
    ++counts_[source[i]];
    sequences_[to.value].push_back(source[i]);
  }
}

void Cells::drop(SeqId seq) {
  std::uint32_t lowest = head_;
  for (const std::uint32_t cell : sequences_[seq.value]) {
    if (--counts_[cell] != 0) continue;
    --used_;
    lowest = std::min(lowest, cell);
  }
  sequences_[seq.value].clear();
  head_ = lowest;
  while (span_ > 0 && counts_[span_ - 1] == 0) --span_;
}

}  // namespace lares::llm
