// The kernels for any processor: see kernels.h.

#define LARES_KERNELS plain
#define LARES_LANES 4
#include "engine/diffusion/kernels_attention.h"
#include "engine/diffusion/kernels_gemm.h"
#include "engine/diffusion/kernels_maps.h"

namespace lares::diffusion {

const Kernels* plain_kernels() {
  static const Kernels kernels = {"plain", plain::gemm, plain::attention, plain::norm,
                                  plain::geglu};
  return &kernels;
}

}  // namespace lares::diffusion
