// llama.cpp and ggml as this process sees them: quiet, and loaded from one known folder.
//
// The libraries print prompts in their logs, look for plug-ins in the current folder and in
// GGML_BACKEND_PATH, and fork a debugger when they abort. `start_backend` ends all that. It does
// its work once per process; any thread may call it. The libraries stay loaded until the process
// ends.
#pragma once

#include <string>

#include "core/result.h"

namespace lares::llm {

// `library_folder` holds libggml-cpu-*.so; "" means the folder from which libllama itself was
// loaded (beside our binary: lib/). Errors: Unavailable, when no usable backend is there.
Result<> start_backend(const std::string& library_folder = "");

// The last error line that the libraries logged on this thread since `clear_backend_error`, without
// the function name in front; "" if none. It says why a model could not be loaded.
void clear_backend_error();
std::string backend_error();

}  // namespace lares::llm
