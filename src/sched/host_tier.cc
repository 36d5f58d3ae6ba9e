#include "sched/host_tier.h"

#include <algorithm>

#include "core/assert.h"
#include "sched/event.h"

namespace lares::sched {

const HostTier::State* HostTier::find(StateId id) const {
  const auto found = std::ranges::find(states_, id, &State::id);
  return found == states_.end() ? nullptr : &*found;
}

HostTier::State* HostTier::find_mutable(StateId id) {
  const auto found = std::ranges::find(states_, id, &State::id);
  return found == states_.end() ? nullptr : &*found;
}

bool HostTier::make_room(Bytes more, std::vector<State>& gone) {
  Bytes owned;
  for (const State& state : states_) {
    if (state.owned) owned += state.bytes;
  }
  if (owned + more > budget) return false;
  while (bytes_ + more > budget) {
    auto oldest = states_.end();
    for (auto it = states_.begin(); it != states_.end(); ++it) {
      if (!it->owned && (oldest == states_.end() || it->used < oldest->used)) oldest = it;
    }
    LARES_ASSERT(oldest != states_.end(), "{} bytes, and nothing to give up", bytes_.count);
    bytes_ -= oldest->bytes;
    gone.push_back(std::move(*oldest));
    states_.erase(oldest);
  }
  return true;
}

StateId HostTier::add(State state) {
  LARES_ASSERT(state.from < state.end && bytes_ + state.bytes <= budget, "state of {} to {}",
               state.from, state.end);
  state.id = StateId{++last_id_};
  state.used = ++tick_;
  bytes_ += state.bytes;
  states_.push_back(std::move(state));
  return StateId{last_id_};
}

void HostTier::set_bytes(StateId id, Bytes bytes) {
  State* state = find_mutable(id);
  if (state == nullptr) return;
  bytes_ += bytes - state->bytes;
  state->bytes = bytes;
}

void HostTier::erase(StateId id) {
  const State* state = find(id);
  if (state == nullptr) return;
  bytes_ -= state->bytes;
  states_.erase(states_.begin() + (state - states_.data()));
}

void HostTier::erase(ModelId model) {
  std::erase_if(states_, [&](const State& state) {
    if (state.model != model) return false;
    bytes_ -= state.bytes;
    return true;
  });
}

HostTier::Match HostTier::match(ModelId model, std::span<const std::uint64_t> keys,
                                std::uint32_t have, std::uint32_t least, bool whole) {
  Match best;
  State* of = nullptr;
  for (State& state : states_) {
    if (state.owned || state.model != model || state.from > have * kBlockTokens) continue;
    const auto length = std::min(state.keys.size(), keys.size());
    const auto common = static_cast<std::uint32_t>(
        std::mismatch(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(length),
                      state.keys.begin())
            .first -
        keys.begin());
    best.apart = std::max(best.apart, common);
    if (common < have + least || common <= best.blocks) continue;
    if (whole && common < state.keys.size()) continue;
    best.state = state.id;
    best.blocks = common;
    of = &state;
  }
  if (of != nullptr) of->used = ++tick_;
  return best;
}

bool HostTier::holds(ModelId model, std::span<const std::uint64_t> keys, std::uint32_t from,
                     bool whole) {
  for (State& state : states_) {
    if (state.owned || state.model != model || state.from > from) continue;
    if (state.keys.size() < keys.size() || (whole && state.keys.size() > keys.size())) continue;
    if (!std::equal(keys.begin(), keys.end(), state.keys.begin())) continue;
    state.used = ++tick_;
    return true;
  }
  return false;
}

void HostTier::check() const {
  Bytes sum;
  for (const State& state : states_) {
    sum += state.bytes;
    LARES_ASSERT(state.owned ? state.keys.empty() : state.keys.size() * kBlockTokens == state.end,
                 "state {}: {} keys for {} tokens", state.id.value, state.keys.size(), state.end);
  }
  LARES_ASSERT(sum == bytes_, "{} bytes are {}", bytes_.count, sum.count);
}

}  // namespace lares::sched
