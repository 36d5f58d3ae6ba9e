// What a model file says about itself, as llama.cpp reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "engine/engine.h"

struct llama_model;
struct llama_context;

namespace lares::llm {

// Fills everything but kv_per_token, which needs a context (see kv_bytes_per_token).
engine::ModelInfo describe_model(const llama_model* model);

// llama.h's LLAMA_POOLING_TYPE_* as the file has it; -1 if it says nothing.
int pooling_type(const llama_model* model);

// Bytes that one token takes in the unified pool, from the shape in the metadata: layers x heads x
// (key + value width) x 2 bytes. Layers that keep no KV (recurrent ones) are counted too, so this
// is an upper bound; the loaded context's own number is exact.
Bytes kv_bytes_per_token(const llama_model* model);

// Looks at a model file before the loader does: exists, readable, GGUF, of a known version, not
// shorter than its own table of tensors says, all parts of a split model there. Errors: NotFound,
// Io, Corrupt, Unsupported (the other byte order), Invalid (a later part of a split model), each a
// sentence with the path.
Result<> check_model_file(const std::string& path);

// The library's reason for not loading `path` as one of our errors.
Error load_error(const std::string& path, std::string_view reason);

}  // namespace lares::llm
