// Body of the product kernel, compiled once for each kind of processor; the rules of kernels_tile.h
// hold here as well.
//
// After Goto and van de Geijn (2008): the columns of a panel are gathered for a block of the depth,
// [depth][column], where they stay in the second-level cache; for each few rows of the matrix, a
// tile of the result is kept in registers while that block is run through.
#pragma once

#include "engine/diffusion/kernels_tile.h"

namespace lares::diffusion::LARES_KERNELS {

constexpr long kDepth = 256;          // Of a block.
constexpr long kTiles = 128 / kTile;  // Of a panel.
constexpr long kPanel = kTiles * kTile;

// Where a column of a panel comes from and goes to.
struct Column {
  long image, y, x;
};

inline Column column_of(const GemmJob& job, long index) {
  const long per_image = job.count * job.out_width;
  const long rest = index % per_image;
  return {index / per_image, job.first + rest / job.out_width, rest % job.out_width};
}

// Depth [k0, k0 + depth) of `columns` columns from `begin` on, one tile, into panel[depth][kTile].
inline void gather_tokens(const GemmJob& job, long begin, long columns, long k0, long depth,
                          float* panel) {
  for (long j = 0; j < kTile; ++j) {
    if (j >= columns) {
      for (long k = 0; k < depth; ++k) panel[k * kTile + j] = 0;
      continue;
    }
    const Column c = column_of(job, begin + j);
    const float* in =
        job.in + ((c.image * job.in_height + c.y) * job.in_width + c.x) * job.depth + k0;
    for (long k = 0; k < depth; ++k) panel[k * kTile + j] = in[k];
  }
}

inline void gather_map(const GemmJob& job, long begin, long columns, long k0, long depth,
                       float* panel) {
  const long area = job.in_width * job.in_height, taps = job.kernel * job.kernel;
  const long channels = job.depth / taps;
  const long width = job.in_width << job.doubled, height = job.in_height << job.doubled;
  for (long j = 0; j < kTile;) {
    // Neighbours in one row of the output are neighbours, `stride` apart, in the input.
    const bool valid = j < columns;
    const Column c = column_of(job, valid ? begin + j : begin);
    const long length = valid ? least(columns - j, job.out_width - c.x) : kTile - j;
    const float* image = job.in + c.image * channels * area;
    for (long k = 0; k < depth; ++k) {
      const long channel = (k0 + k) / taps, tap = (k0 + k) % taps;
      const long y = c.y * job.stride + tap / job.kernel - job.pad;
      const long x = c.x * job.stride + tap % job.kernel - job.pad;
      float* to = panel + k * kTile + j;
      if (!valid || y < 0 || y >= height) {
        for (long i = 0; i < length; ++i) to[i] = 0;
        continue;
      }
      const float* row = image + channel * area + (y >> job.doubled) * job.in_width;
      if (job.stride == 1 && job.doubled == 0 && x >= 0 && x + length <= width) {
        if (length == kTile) {
          *reinterpret_cast<Vector*>(to) = *reinterpret_cast<const Vector*>(row + x);
          *reinterpret_cast<Vector*>(to + kLanes) =
              *reinterpret_cast<const Vector*>(row + x + kLanes);
        } else {
          for (long i = 0; i < length; ++i) to[i] = row[x + i];
        }
        continue;
      }
      for (long i = 0; i < length; ++i) {
        const long at = x + i * job.stride;
        to[i] = at >= 0 && at < width ? row[at >> job.doubled] : 0;
      }
    }
    j += length;
  }
}

// Rows [row, row + rows) of the weights for a block of the depth: in place if they are F32.
inline const float* weights_of(const GemmJob& job, long row, long rows, long k0, long depth,
                               long& a_row) {
  if (!job.half) {
    a_row = job.depth;
    return static_cast<const float*>(job.weight) + row * job.depth + k0;
  }
  float* out = weights_scratch.room(kRows * kDepth);
  const auto* weight = static_cast<const unsigned short*>(job.weight);
  for (long r = 0; r < rows; ++r) {
    const unsigned short* from = weight + (row + r) * job.depth + k0;
    long k = 0;
#ifdef __F16C__
    for (; k + 8 <= depth; k += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k));
      _mm256_storeu_ps(out + r * kDepth + k, _mm256_cvtph_ps(halves));
    }
#endif
    for (; k < depth; ++k) out[r * kDepth + k] = float_of(from + k);
  }
  a_row = kDepth;
  return out;
}

inline void scatter(const GemmJob& job, long begin, long columns, long row, long rows,
                    const float* sums) {
  const long area = job.out_width * job.out_height;
  for (long j = 0; j < columns;) {
    const Column c = column_of(job, begin + j);
    const long place = c.y * job.out_width + c.x;
    const long length = least(columns - j, job.out_width - c.x);
    for (long r = 0; r < rows; ++r) {
      const float bias = job.bias == nullptr ? 0 : job.bias[c.image * job.bias_step + row + r];
      const float* from = sums + r * kPanel + j;
      const long step = job.tokens_out ? job.rows : 1;
      const long at = job.tokens_out ? (c.image * area + place) * job.rows + row + r
                                     : (c.image * job.rows + row + r) * area + place;
      float* to = job.out + at;
      if (job.residual == nullptr) {
        for (long i = 0; i < length; ++i) to[i * step] = from[i] + bias;
      } else {
        const float* add = job.residual + at;
        for (long i = 0; i < length; ++i) to[i * step] = from[i] + bias + add[i * step];
      }
    }
    j += length;
  }
}

// Rows [row, end) of the result for one panel of columns.
inline void panel_product(const GemmJob& job, long begin, long columns, long row, long end) {
  float* panel = panel_scratch.room(kPanel * kDepth);
  float* sums = sums_scratch.room((end - row) * kPanel);
  for (long i = 0; i < (end - row) * kPanel; ++i) sums[i] = 0;
  for (long k0 = 0; k0 < job.depth; k0 += kDepth) {
    const long depth = least(kDepth, job.depth - k0);
    for (long t = 0; t * kTile < columns; ++t) {
      (job.tokens_in ? gather_tokens : gather_map)(job, begin + t * kTile,
                                                   least(kTile, columns - t * kTile), k0, depth,
                                                   panel + t * kTile * kDepth);
    }
    for (long r = row; r < end; r += kRows) {
      const long rows = least(kRows, end - r);
      long a_row = 0;
      const float* a = weights_of(job, r, rows, k0, depth, a_row);
      for (long t = 0; t * kTile < columns; ++t) {
        tile_of<static_cast<int>(kRows)>(rows, a, a_row, panel + t * kTile * kDepth, depth,
                                         sums + (r - row) * kPanel + t * kTile, kPanel);
      }
    }
  }
  scatter(job, begin, columns, row, end - row, sums);
}

inline void gemm(const GemmJob& job, int ith, int nth) {
  const long columns = job.images * job.count * job.out_width;
  const long panels = (columns + kPanel - 1) / kPanel;
  // Few panels are shared between threads by rows of the matrix.
  const long parts = panels >= 4 * nth ? 1 : least(nth, (job.rows + kRows - 1) / kRows);
  const long blocks = (job.rows + kRows - 1) / kRows;
  for (long item = ith; item < panels * parts; item += nth) {
    const long begin = item / parts * kPanel, part = item % parts;
    const long row = blocks * part / parts * kRows;
    const long end = least(job.rows, blocks * (part + 1) / parts * kRows);
    if (row < end) panel_product(job, begin, least(kPanel, columns - begin), row, end);
  }
}

}  // namespace lares::diffusion::LARES_KERNELS
