// How much memory a loaded model takes and how large its KV pool may be.
#pragma once

#include <cstdint>

#include "core/types.h"
#include "engine/engine.h"

struct llama_context;

namespace lares::llm {

struct MemoryParts {
  Bytes weights, kv, compute;
};

// What the library has allocated for a context, summed over its buffers: weights (as placed, so
// repacked copies are counted and weights that are only mapped too), KV cells, and the buffers that
// graphs are computed in.
MemoryParts memory_of(const llama_context* context);

struct DeviceMemory {
  Bytes total, free;
};

// Of the first GPU, or of the host where there is none (MemTotal and MemAvailable).
DeviceMemory device_memory();

// Cells for a pool whose size was left open: as many as fit in a quarter of the free memory, at
// most 32,768, but never less than the model's trained context as long as that is itself no more
// than 32,768. A multiple of 256, which is what the library rounds to.
std::uint32_t choose_pool_tokens(const engine::ModelInfo& info, Bytes memory_free);

}  // namespace lares::llm
