#include "engine/llm/memory.h"

#include <fstream>
#include <string>

#include <ggml-backend.h>
// Not in the include path of llama.cpp's public headers, but exported by the library: the only way
// to learn what a context has allocated. "include/../src", so that no other internal header is in
// reach.
#include <../src/llama-ext.h>

namespace lares::llm {
namespace {

Bytes bytes(std::size_t count) {
  return Bytes{static_cast<std::int64_t>(count)};
}

DeviceMemory host_memory() {
  DeviceMemory memory;
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::string unit;
  std::int64_t kib = 0;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemTotal:") memory.total = Bytes{kib * 1024};
    if (key == "MemAvailable:") memory.free = Bytes{kib * 1024};
  }
  return memory;
}

}  // namespace

MemoryParts memory_of(const llama_context* context) {
  MemoryParts parts;
  for (const auto& [type, data] : llama_get_memory_breakdown(context)) {
    parts.weights += bytes(data.model);
    parts.kv += bytes(data.context);
    parts.compute += bytes(data.compute);
  }
  return parts;
}

DeviceMemory device_memory() {
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_GPU) continue;
    std::size_t free = 0;
    std::size_t total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    return {bytes(total), bytes(free)};
  }
  return host_memory();
}

}  // namespace lares::llm
