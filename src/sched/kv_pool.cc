#include "sched/kv_pool.h"

#include <algorithm>

#include "core/assert.h"
#include "sched/event.h"

namespace lares::sched {

KvPool::KvPool(std::uint32_t tokens, std::uint32_t sequences)
    : refs_(tokens / kBlockTokens), sequences_(sequences) {
  LARES_ASSERT(sequences > 0, "a pool needs sequences");
  drop_all();
}

std::uint32_t KvPool::held(SeqId seq) const {
  return static_cast<std::uint32_t>(sequences_[seq.value].blocks.size());
}

std::uint32_t KvPool::shared_front(SeqId seq) const {
  const std::vector<std::uint32_t>& blocks = sequences_[seq.value].blocks;
  const auto alone = std::ranges::find_if(
      blocks, [this](std::uint32_t block) { return refs_[block].live + refs_[block].cached == 1; });
  return static_cast<std::uint32_t>(alone - blocks.begin());
}

void KvPool::hold(std::uint32_t block, State as) {
  Refs& refs = refs_[block];
  if (as == State::Live) {
    if (refs.live++ == 0 && refs.cached > 0) --reclaimable_;
  } else if (refs.cached++ == 0 && refs.live == 0) {
    ++reclaimable_;
  }
}

void KvPool::let_go(std::uint32_t block, State as) {
  Refs& refs = refs_[block];
  std::uint32_t& mine = as == State::Live ? refs.live : refs.cached;
  LARES_ASSERT(mine > 0, "block {} is not held", block);
  --mine;
  if (as == State::Live && refs.live == 0 && refs.cached > 0) ++reclaimable_;
  if (as == State::Cached && refs.cached == 0 && refs.live == 0) --reclaimable_;
  if (refs.live == 0 && refs.cached == 0) free_.push_back(block);
}

SeqId KvPool::open(SeqId from, std::uint32_t shared) {
  const auto free = std::ranges::find(sequences_, State::Free, &Sequence::state);
  LARES_ASSERT(free != sequences_.end(), "no free sequence of {}", sequences_.size());
  Sequence& sequence = *free;
  sequence.state = State::Live;
  ++live_;
  const Sequence& source = sequences_[from.value];
  LARES_ASSERT(shared <= source.blocks.size() && shared <= source.keys.size(),
               "sharing {} blocks of {}", shared, source.blocks.size());
  sequence.blocks.assign(source.blocks.begin(), source.blocks.begin() + shared);
  sequence.keys.assign(source.keys.begin(), source.keys.begin() + shared);
  for (const std::uint32_t block : sequence.blocks) hold(block, State::Live);
  return SeqId{static_cast<std::uint32_t>(free - sequences_.begin())};
}

bool KvPool::grow(SeqId seq, std::uint32_t want) {
  Sequence& sequence = sequences_[seq.value];
  LARES_ASSERT(sequence.state == State::Live, "sequence {} is not live", seq.value);
  if (want <= sequence.blocks.size()) return true;
  if (want - sequence.blocks.size() > free_.size()) return false;
  while (sequence.blocks.size() < want) {
    const std::uint32_t block = free_.back();
    free_.pop_back();
    hold(block, State::Live);
    sequence.blocks.push_back(block);
  }
  return true;
}

void KvPool::cache(SeqId seq, std::span<const std::uint64_t> keys) {
  Sequence& sequence = sequences_[seq.value];
  LARES_ASSERT(sequence.state == State::Live, "sequence {} is not live", seq.value);
  LARES_ASSERT(keys.size() <= sequence.blocks.size(), "{} keys for {} blocks", keys.size(),
               sequence.blocks.size());
  for (const std::uint32_t block : sequence.blocks) {
    hold(block, State::Cached);  // Before it is let go, so that no block passes through free_.
    let_go(block, State::Live);
  }
  sequence.keys.assign(keys.begin(), keys.end());
  sequence.state = State::Cached;
  sequence.used = ++tick_;
  sequence.useful = false;
  --live_;
  ++cached_;
}

void KvPool::drop(SeqId seq) {
  Sequence& sequence = sequences_[seq.value];
  LARES_ASSERT(sequence.state != State::Free, "sequence {} is free", seq.value);
  for (const std::uint32_t block : sequence.blocks) let_go(block, sequence.state);
  --(sequence.state == State::Live ? live_ : cached_);
  sequence.state = State::Free;
  sequence.blocks.clear();
  sequence.keys.clear();
}

void KvPool::drop_all() {
  std::ranges::fill(refs_, Refs{});
  free_.resize(refs_.size());
  for (std::size_t i = 0; i < free_.size(); ++i) {
    free_[i] = static_cast<std::uint32_t>(free_.size() - 1 - i);
  }
  for (Sequence& sequence : sequences_) {
    sequence.state = State::Free;
    sequence.blocks.clear();
    sequence.keys.clear();
  }
  live_ = cached_ = reclaimable_ = 0;
}

void KvPool::set_keys(SeqId seq, std::span<const std::uint64_t> keys) {
  Sequence& sequence = sequences_[seq.value];
  LARES_ASSERT(keys.size() <= sequence.blocks.size(), "{} keys for {} blocks", keys.size(),
               sequence.blocks.size());
  for (std::size_t i = sequence.keys.size(); i < keys.size(); ++i) sequence.keys.push_back(keys[i]);
}

KvPool::Match KvPool::match(std::span<const std::uint64_t> keys) {
  Match best;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& sequence = sequences_[i];
    const auto length = std::min(sequence.keys.size(), keys.size());
    // Equal keys at a depth mean equal tokens up to it, so the last one decides for a longer match.
    if (length <= best.blocks || sequence.keys[best.blocks] != keys[best.blocks]) continue;
    const auto end = std::mismatch(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(length),
                                   sequence.keys.begin());
    best = Match{SeqId{static_cast<std::uint32_t>(i)},
                 static_cast<std::uint32_t>(end.first - keys.begin())};
  }
  if (best.blocks > 0) {
    sequences_[best.seq.value].used = ++tick_;
    sequences_[best.seq.value].useful = true;
  }
  return best;
}

std::optional<SeqId> KvPool::least_recent_cached(std::optional<SeqId> spare) const {
  std::optional<SeqId> oldest;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const SeqId seq{static_cast<std::uint32_t>(i)};
    if (sequences_[i].state != State::Cached || seq == spare) continue;
    if (!oldest || sequences_[i].used < sequences_[oldest->value].used) oldest = seq;
  }
  return oldest;
}

void KvPool::check() const {
  std::vector<Refs> counted(refs_.size());
  std::uint32_t live = 0;
  std::uint32_t cached = 0;
  for (const Sequence& sequence : sequences_) {
    live += sequence.state == State::Live ? 1 : 0;
    cached += sequence.state == State::Cached ? 1 : 0;
    LARES_ASSERT(sequence.state != State::Free || sequence.blocks.empty(), "free but holds blocks");
    LARES_ASSERT(sequence.keys.size() <= sequence.blocks.size(), "more keys than blocks");
    for (const std::uint32_t block : sequence.blocks) {
      ++(sequence.state == State::Live ? counted[block].live : counted[block].cached);
    }
  }
  std::uint32_t held = 0;
  std::uint32_t reclaimable = 0;
  for (std::size_t i = 0; i < refs_.size(); ++i) {
    LARES_ASSERT(counted[i].live == refs_[i].live && counted[i].cached == refs_[i].cached,
                 "block {} is held {}+{} times, counted {}+{}", i, counted[i].live,
                 counted[i].cached, refs_[i].live, refs_[i].cached);
    held += refs_[i].live + refs_[i].cached > 0 ? 1 : 0;
    reclaimable += refs_[i].live == 0 && refs_[i].cached > 0 ? 1 : 0;
  }
  LARES_ASSERT(held + free_.size() == refs_.size(), "{} held, {} free of {}", held, free_.size(),
               refs_.size());
  LARES_ASSERT(reclaimable == reclaimable_, "{} reclaimable, counted {}", reclaimable,
               reclaimable_);
  LARES_ASSERT(live == live_ && cached == cached_, "{}+{} sequences, counted {}+{}", live, cached,
               live_, cached_);
}

}  // namespace lares::sched
