// Reads what a model file says about itself, without allocating its weights.
//
// Meant for a throw-away child process: a file that makes the library abort then harms nobody.
#pragma once

#include <string>

#include "core/result.h"
#include "engine/engine.h"

namespace lares::llm {

// Errors: NotFound, Io, Corrupt (not GGUF, truncated, damaged), Unsupported (architecture), each a
// sentence that names the file; Unavailable when no backend can be loaded.
Result<engine::ModelInfo> probe_model(const std::string& path);

}  // namespace lares::llm
