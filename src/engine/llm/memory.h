// How much memory a loaded model takes, and how much there is.
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

}  // namespace lares::llm
