#include "engine/llm/adapter.h"

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "engine/llm/backend.h"

namespace lares::llm {

Result<Adapter> load_adapter(llama_model* model, const engine::LoadSpec& spec) {
  if (spec.adapter.empty()) return Adapter();
  if (::access(spec.adapter.c_str(), R_OK) != 0)
    return fail(Code::NotFound,
                fmt::format("{}: there is no such adapter, or it cannot be read", spec.adapter));
  clear_backend_error();
  Adapter adapter(llama_adapter_lora_init(model, spec.adapter.c_str()));
  if (adapter) return adapter;
  const std::string why = backend_error();
  return fail(Code::Corrupt,
              fmt::format("{} cannot be used as a LoRA adapter for {}: {}", spec.adapter, spec.path,
                          why.empty() ? "llama.cpp gave no reason" : why));
}

Bytes adapter_bytes(const engine::LoadSpec& spec) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(spec.adapter, error);
  return spec.adapter.empty() || error ? Bytes{} : Bytes{static_cast<std::int64_t>(size)};
}

Result<> use_adapter(llama_context* context, const Adapter& adapter, const engine::LoadSpec& spec) {
  if (!adapter) return {};
  llama_adapter_lora* set = adapter.get();
  auto scale = static_cast<float>(spec.adapter_scale);
  if (llama_set_adapters_lora(context, &set, 1, &scale) == 0) return {};
  return fail(Code::Unsupported,
              fmt::format("{} cannot be used: {}", spec.adapter, backend_error()));
}

}  // namespace lares::llm
