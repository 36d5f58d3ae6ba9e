// The kernels for processors with AVX2, FMA and F16C: see kernels.h.
#ifdef __AVX2__
#define LARES_KERNELS avx2
#define LARES_LANES 8
#include "engine/diffusion/kernels_attention.h"
#include "engine/diffusion/kernels_gemm.h"
#include "engine/diffusion/kernels_maps.h"
#else
#include "engine/diffusion/kernels.h"
#endif

namespace lares::diffusion {

const Kernels* avx2_kernels() {
#ifdef __AVX2__
  static const Kernels kernels = {"avx2", avx2::gemm, avx2::attention, avx2::norm, avx2::geglu};
  return &kernels;
#else
  return nullptr;
#endif
}

}  // namespace lares::diffusion
