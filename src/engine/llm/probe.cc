#include "engine/llm/probe.h"

#include <llama-cpp.h>

#include "engine/llm/backend.h"
#include "engine/llm/info.h"

namespace lares::llm {

Result<engine::ModelInfo> probe_model(const std::string& path) {
  TRY_VOID(start_backend());
  TRY_VOID(check_model_file(path));
  llama_model_params params = llama_model_default_params();
  params.no_alloc = true;
  params.load_mode = LLAMA_LOAD_MODE_NONE;  // Mapping makes no sense for weights that are not read.
  clear_backend_error();
  const llama_model_ptr model(llama_model_load_from_file(path.c_str(), params));
  if (!model) return tl::unexpected(load_error(path, backend_error()));
  return describe_model(model.get());
}

}  // namespace lares::llm
