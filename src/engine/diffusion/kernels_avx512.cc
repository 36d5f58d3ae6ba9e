// The kernels for processors with AVX-512: see kernels.h.
#ifdef __AVX512F__
#define LARES_KERNELS avx512
#define LARES_LANES 16
#include "engine/diffusion/kernels_attention.h"
#include "engine/diffusion/kernels_gemm.h"
#include "engine/diffusion/kernels_maps.h"
#else
#include "engine/diffusion/kernels.h"
#endif

namespace lares::diffusion {

const Kernels* avx512_kernels() {
#ifdef __AVX512F__
  static const Kernels kernels = {"avx512", avx512::gemm, avx512::attention, avx512::norm,
                                  avx512::geglu};
  return &kernels;
#else
  return nullptr;
#endif
}

}  // namespace lares::diffusion
