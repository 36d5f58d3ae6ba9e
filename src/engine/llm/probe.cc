#include "engine/llm/probe.h"

#include <memory>

#include <fmt/format.h>
#include <gguf.h>
#include <llama-cpp.h>

#include "engine/llm/backend.h"
#include "engine/llm/info.h"

namespace lares::llm {
namespace {

struct FreeGguf {
  void operator()(gguf_context* file) const { gguf_free(file); }
};

bool is_adapter(const std::string& path) {
  gguf_init_params params{};
  params.no_alloc = true;
  const std::unique_ptr<gguf_context, FreeGguf> file(gguf_init_from_file(path.c_str(), params));
  if (!file) return false;
  const std::int64_t key = gguf_find_key(file.get(), "general.type");
  return key >= 0 && gguf_get_kv_type(file.get(), key) == GGUF_TYPE_STRING &&
         std::string_view(gguf_get_val_str(file.get(), key)) == "adapter";
}

}  // namespace

Result<engine::ModelInfo> probe_model(const std::string& path) {
  TRY_VOID(start_backend());
  TRY_VOID(check_model_file(path));
  llama_model_params params = llama_model_default_params();
  params.no_alloc = true;
  params.load_mode = LLAMA_LOAD_MODE_NONE;  // Mapping makes no sense for weights that are not read.
  clear_backend_error();
  const llama_model_ptr model(llama_model_load_from_file(path.c_str(), params));
  if (!model && is_adapter(path)) {
    return fail(Code::Unsupported,
                fmt::format("{} is an adapter, not a model: name it in a [[model]] block of the "
                            "configuration, as `adapter` beside the `path` of its base",
                            path));
  }
  if (!model) return tl::unexpected(load_error(path, backend_error()));
  return describe_model(model.get());
}

}  // namespace lares::llm
