#include "engine/diffusion/device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>

#include "core/assert.h"

namespace lares::diffusion {
namespace {

using NewPool = ggml_threadpool* (*)(ggml_threadpool_params*);
using FreePoolFunction = void (*)(ggml_threadpool*);
using SetPool = void (*)(ggml_backend_t, ggml_threadpool*);

// The CPU backend is a plug-in: its functions are found by name.
template <class Function>
Function cpu_function(const char* name) {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return nullptr;
  return reinterpret_cast<Function>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

std::string folder_of_ggml() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&ggml_backend_load_all_from_path), &info) == 0 ||
      info.dli_fname == nullptr) {
    return "";
  }
  const std::string path(info.dli_fname);
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

void ignore_log(ggml_log_level /*level*/, const char* /*text*/, void* /*user_data*/) {}

Result<> load_backends(std::string folder) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  if (ggml_backend_dev_count() > 0) return {};  // By the text engine, or by an earlier device.
  ggml_log_set(ignore_log, nullptr);
  setenv("GGML_NO_BACKTRACE", "1", 1);
  unsetenv("GGML_BACKEND_PATH");
  if (folder.empty()) folder = folder_of_ggml();
  if (!folder.empty()) ggml_backend_load_all_from_path(folder.c_str());
  if (ggml_backend_dev_count() > 0) return {};
  return fail(Code::Unavailable,
              fmt::format("no compute backend (libggml-cpu-*.so) could be loaded from {}; build "
                          "again, so that the libraries are copied there",
                          folder));
}

}  // namespace

void Device::FreePool::operator()(ggml_threadpool* pool) const {
  if (const auto free_pool = cpu_function<FreePoolFunction>("ggml_threadpool_free"))
    free_pool(pool);
}

Result<Device> Device::open(const std::string& name, const std::string& library_folder,
                            std::uint32_t threads) {
  TRY_VOID(load_backends(library_folder));
  Device out;
  ggml_backend_dev_t device = name.empty() || name == "cpu"
                                  ? ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)
                                  : ggml_backend_dev_by_name(name.c_str());
  if (device == nullptr) return fail(Code::NotFound, fmt::format("no device {}", name));
  out.backend_.reset(ggml_backend_dev_init(device, nullptr));
  if (!out.backend_) return fail(Code::Unavailable, fmt::format("device {} does not start", name));
  if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) out.kernels_ = best_kernels();
  TRY_VOID(out.set_threads(threads));
  return out;
}

Result<> Device::set_threads(std::uint32_t threads) {
  threads = std::max(1U, threads);
  ggml_backend_dev_t device = ggml_backend_get_device(backend_.get());
  if (threads == threads_ || ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU) {
    return {};
  }
  const auto set_count = cpu_function<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads");
  const auto set_pool = cpu_function<SetPool>("ggml_backend_cpu_set_threadpool");
  const auto new_pool = cpu_function<NewPool>("ggml_threadpool_new");
  if (set_count == nullptr || set_pool == nullptr || new_pool == nullptr) {
    return fail(Code::Unavailable, "ggml's CPU backend has no thread pools");
  }
  // A pool even for one thread: without it, ggml makes and ends one with every graph, and a pass
  // is many of them.
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(threads));
  params.poll = 0;
  std::unique_ptr<ggml_threadpool, FreePool> pool(new_pool(&params));
  if (!pool) {
    return fail(Code::Unavailable, fmt::format("could not start {} compute threads", threads));
  }
  set_count(backend_.get(), static_cast<int>(threads));
  set_pool(backend_.get(), pool.get());
  pool_ = std::move(pool);
  threads_ = threads;
  return {};
}

Context make_context(std::size_t tensors_max) {
  const ggml_init_params params = {
      .mem_size = tensors_max * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true};
  Context out(ggml_init(params));
  LARES_ASSERT(out != nullptr, "no memory for {} tensors", tensors_max);
  return out;
}

}  // namespace lares::diffusion
