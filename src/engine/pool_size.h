// The size of a KV pool that was left open, which server and engine agree on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/engine.h"

namespace lares::engine {

// Cells: as many as fit in a quarter of `memory`, at most 32,768, but never less than the model's
// trained context as long as that is itself no more than 32,768. A multiple of 256, which is what
// llama.cpp rounds to.
inline std::uint32_t choose_pool_tokens(const ModelInfo& info, Bytes memory) {
  constexpr std::int64_t kMost = 32768, kStep = 256;
  const std::int64_t each = std::max<std::int64_t>(info.kv_per_token.count, 1);
  std::int64_t tokens = std::min(kMost, memory.count / 4 / each);
  if (info.context <= kMost) tokens = std::max<std::int64_t>(tokens, info.context);
  tokens = std::max(tokens, kStep);
  return static_cast<std::uint32_t>((tokens + kStep - 1) / kStep * kStep);
}

}  // namespace lares::engine
