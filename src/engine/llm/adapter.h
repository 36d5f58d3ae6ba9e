// A LoRA adapter: small matrices that are added to some of a model's at every step. The base
// weights stay as they are and are shared; each context has the adapter it was made with.
#pragma once

#include <memory>

#include <llama.h>

#include "core/result.h"
#include "engine/engine.h"

namespace lares::llm {

struct FreeAdapter {
  void operator()(llama_adapter_lora* adapter) const { llama_adapter_lora_free(adapter); }
};
// Must go before the model's weights do, and after the contexts that use it.
using Adapter = std::unique_ptr<llama_adapter_lora, FreeAdapter>;

// Null if the spec names none. To be called before the context is made, which makes room for it in
// its graphs. Errors: NotFound, Corrupt, naming the file and what does not fit.
Result<Adapter> load_adapter(llama_model* model, const engine::LoadSpec& spec);

// What it takes beside its base: about its file. 0 without one.
Bytes adapter_bytes(const engine::LoadSpec& spec);

// Errors: Unsupported.
Result<> use_adapter(llama_context* context, const Adapter& adapter, const engine::LoadSpec& spec);

}  // namespace lares::llm
