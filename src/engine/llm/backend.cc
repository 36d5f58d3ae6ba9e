#include "engine/llm/backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

#include <fmt/format.h>
#include <ggml-backend.h>
#include <llama.h>

namespace lares::llm {
namespace {

// Per thread: a model that loads on one thread does not explain a failure on another.
thread_local std::string last_error;

// "llama_model_load: error loading model: unknown model architecture: 'x'\n" -> from "error" on.
// The bare "failed to load model" that follows the reason would hide it.
void keep_error(ggml_log_level level, const char* text, void* /*user_data*/) {
  if (level != GGML_LOG_LEVEL_ERROR || text == nullptr) return;
  std::string_view line(text);
  while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
  const std::size_t colon = line.find(": ");
  if (colon != std::string_view::npos &&
      line.substr(0, colon).find(' ') == std::string_view::npos) {
    line.remove_prefix(colon + 2);
  }
  if (line.empty() || line == "failed to load model") return;
  last_error.assign(line);
}

std::string folder_of_libllama() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&llama_backend_init), &info) == 0 ||
      info.dli_fname == nullptr) {
    return "";
  }
  const std::string path(info.dli_fname);
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

Result<> start_once(std::string folder) {
  llama_log_set(keep_error, nullptr);
  setenv("GGML_NO_BACKTRACE", "1", 1);
  unsetenv("GGML_BACKEND_PATH");
  if (folder.empty()) folder = folder_of_libllama();
  if (folder.empty()) {
    return fail(Code::Unavailable, "cannot tell where llama.cpp's libraries were loaded from");
  }
  // Another engine may have loaded them: a second time would register each device twice.
  if (ggml_backend_dev_count() == 0) ggml_backend_load_all_from_path(folder.c_str());
  if (ggml_backend_dev_count() == 0) {
    return fail(Code::Unavailable,
                fmt::format("no compute backend (libggml-cpu-*.so) could be loaded from {}; "
                            "build again, so that the libraries are copied there",
                            folder));
  }
  llama_backend_init();
  return {};
}

}  // namespace

Result<> start_backend(const std::string& library_folder) {
  static std::mutex mutex;
  static bool started = false;
  const std::lock_guard<std::mutex> lock(mutex);
  if (started) return {};
  TRY_VOID(start_once(library_folder));
  started = true;
  return {};
}

void clear_backend_error() {
  last_error.clear();
}

std::string backend_error() {
  return last_error;
}

}  // namespace lares::llm
