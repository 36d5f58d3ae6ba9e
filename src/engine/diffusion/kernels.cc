#include "engine/diffusion/kernels.h"

namespace lares::diffusion {

const Kernels* best_kernels() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                    __builtin_cpu_supports("f16c") != 0;
  if (avx2 && __builtin_cpu_supports("avx512f") != 0 && avx512_kernels() != nullptr) {
    return avx512_kernels();
  }
  if (avx2 && avx2_kernels() != nullptr) return avx2_kernels();
#endif
  return plain_kernels();
}

}  // namespace lares::diffusion
