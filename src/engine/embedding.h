// Sizes of a model that is loaded for embeddings (LoadSpec::embeds), which server and engine agree
// on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/engine.h"

namespace lares::engine {

// Cells of its pool, and so the longest text that is read in chunks.
inline constexpr std::uint32_t kEmbedPoolTokens = 8192;

// Its micro-batch. Every row also gets logits, which llama.cpp cannot leave out: 128 rows of a
// vocabulary of 150,000 are 78 MB.
inline constexpr std::uint32_t kEmbedBatchTokens = 128;

// The longest text of a model that needs it in one piece; its attention grows with the square.
inline constexpr std::uint32_t kWholeTextMax = 2048;

// Most tokens of one text.
inline std::uint32_t embed_context(const ModelInfo& info) {
  return std::min(info.context, info.can.whole_text ? kWholeTextMax : kEmbedPoolTokens);
}

}  // namespace lares::engine
