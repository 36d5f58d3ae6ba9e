// One ggml backend: where weights lie and graphs are computed.
//
// The first device that is opened in a process silences ggml's logs and loads its backends from one
// known folder, unless another engine has done so. Owned by the engine; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ggml-backend.h>

#include "core/result.h"
#include "engine/diffusion/kernels.h"

struct ggml_threadpool;

namespace lares::diffusion {

class Device {
 public:
  // `library_folder` holds libggml-cpu-*.so; "" means the folder from which ggml was loaded.
  // `name`: "" or "cpu" for the processor, or a device as ggml names it ("CUDA0").
  // Errors: Unavailable, NotFound.
  static Result<Device> open(const std::string& name, const std::string& library_folder,
                             std::uint32_t threads);

  [[nodiscard]] ggml_backend_t backend() const { return backend_.get(); }
  // What custom nodes run; nullptr where there are none: on other devices than the processor.
  [[nodiscard]] const Kernels* kernels() const { return kernels_; }
  void use_kernels(const Kernels* kernels) { kernels_ = kernels; }  // For tests and comparisons.
  // For the next graph on. Its threads sleep between graphs; a single one needs no pool.
  Result<> set_threads(std::uint32_t threads);
  [[nodiscard]] std::uint32_t threads() const { return threads_; }

 private:
  struct FreeBackend {
    void operator()(ggml_backend_t backend) const { ggml_backend_free(backend); }
  };
  struct FreePool {
    void operator()(ggml_threadpool* pool) const;
  };
  std::unique_ptr<ggml_threadpool, FreePool> pool_;  // Outlives the backend that computes on it.
  std::unique_ptr<ggml_backend, FreeBackend> backend_;
  const Kernels* kernels_ = nullptr;
  std::uint32_t threads_ = 0;
};

struct FreeBuffer {
  void operator()(ggml_backend_buffer_t buffer) const { ggml_backend_buffer_free(buffer); }
};
using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;

struct FreeContext {
  void operator()(ggml_context* context) const { ggml_free(context); }
};
using Context = std::unique_ptr<ggml_context, FreeContext>;

// A context that holds descriptions of at most so many tensors, and no data.
Context make_context(std::size_t tensors_max);

}  // namespace lares::diffusion
