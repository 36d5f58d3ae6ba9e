// The innermost part of all product kernels, compiled once for each kind of processor (kernels.h):
// a few rows of a matrix times a panel of columns.
//
// The including file defines LARES_KERNELS, the namespace, and LARES_LANES, floats in a vector. It
// must call nothing of the standard library that is inline: the linker might keep this file's copy,
// made for a newer processor, for everybody.
#pragma once

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): the C functions, not std's.

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "engine/diffusion/kernels.h"

#ifndef LARES_KERNELS
#define LARES_KERNELS alone
#define LARES_LANES 4
#endif

namespace lares::diffusion::LARES_KERNELS {

typedef float Vector __attribute__((vector_size(4 * LARES_LANES), aligned(4), may_alias));

constexpr long kLanes = LARES_LANES;
constexpr long kTile = 2 * kLanes;                  // Columns of a tile.
constexpr long kRows = LARES_LANES == 16 ? 12 : 6;  // Rows of it: accumulators fill the registers.

inline long least(long a, long b) {
  return a < b ? a : b;
}

// Memory of one thread, kept from call to call.
struct Scratch {
  float* data = nullptr;
  long size = 0;
  ~Scratch() { free(data); }
  float* room(long floats) {
    if (floats > size) {
      free(data);
      data = static_cast<float*>(malloc(static_cast<unsigned long>(floats) * sizeof(float)));
      if (data == nullptr) abort();
      size = floats;
    }
    return data;
  }
};
inline thread_local Scratch panel_scratch, sums_scratch, weights_scratch;

inline float float_of(const unsigned short* half) {
#ifdef __F16C__
  return _cvtsh_ss(*half);
#else
  // All but infinities and NaN, which no weight is: the exponent moves by a multiplication.
  union {
    unsigned bits;
    float value;
  } u;
  u.bits = (*half & 0x7fffU) << 13U;
  u.value *= 0x1p112F;
  u.bits |= (*half & 0x8000U) << 16U;
  return u.value;
#endif
}

// sums[R][kTile] += a[R][depth] * panel[depth][kTile]; rows of `a` and of the sums are so far
// apart.
template <int R>
inline void tile(const float* a, long a_row, const float* panel, long depth, float* sums,
                 long sums_row) {
  Vector low[R], high[R];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    low[r] = *reinterpret_cast<const Vector*>(sums + r * sums_row);
    high[r] = *reinterpret_cast<const Vector*>(sums + r * sums_row + kLanes);
  }
  for (long k = 0; k < depth; ++k) {
    const Vector p = *reinterpret_cast<const Vector*>(panel);
    const Vector q = *reinterpret_cast<const Vector*>(panel + kLanes);
    panel += kTile;
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const float weight = a[r * a_row + k];
      low[r] += weight * p;
      high[r] += weight * q;
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
    *reinterpret_cast<Vector*>(sums + r * sums_row) = low[r];
    *reinterpret_cast<Vector*>(sums + r * sums_row + kLanes) = high[r];
  }
}

template <int R>
inline void tile_of(long rows, const float* a, long a_row, const float* panel, long depth,
                    float* sums, long sums_row) {
  if constexpr (R > 0) {
    if (rows == R) {
      tile<R>(a, a_row, panel, depth, sums, sums_row);
    } else {
      tile_of<R - 1>(rows, a, a_row, panel, depth, sums, sums_row);
    }
  }
}

}  // namespace lares::diffusion::LARES_KERNELS
