// Body of the attention kernel, compiled once for each kind of processor; the rules of
// kernels_tile.h hold here as well.
//
// For a tile of queries the scores, [key][query], come out of one product in just the layout that
// the product with the values takes in; in between, all queries of a vector are softened at once.
#pragma once

#include "engine/diffusion/kernels_maps.h"

namespace lares::diffusion::LARES_KERNELS {

// Scores to e^(score - largest), column by column; what they add up to, into sums[kTile].
inline void soften(float* scores, long keys, float* sums) {
  Vector low = *reinterpret_cast<const Vector*>(scores);
  Vector high = *reinterpret_cast<const Vector*>(scores + kLanes);
  for (long k = 1; k < keys; ++k) {
    const Vector a = *reinterpret_cast<const Vector*>(scores + k * kTile);
    const Vector b = *reinterpret_cast<const Vector*>(scores + k * kTile + kLanes);
    low = a > low ? a : low;
    high = b > high ? b : high;
  }
  Vector low_sum = {}, high_sum = {};
  for (long k = 0; k < keys; ++k) {
    float* row = scores + k * kTile;
    *reinterpret_cast<Vector*>(row) -= low;
    *reinterpret_cast<Vector*>(row + kLanes) -= high;
    exponential(row, row);
    exponential(row + kLanes, row + kLanes);
    low_sum += *reinterpret_cast<const Vector*>(row);
    high_sum += *reinterpret_cast<const Vector*>(row + kLanes);
  }
  *reinterpret_cast<Vector*>(sums) = low_sum;
  *reinterpret_cast<Vector*>(sums + kLanes) = high_sum;
}

// rows x kTile sums of a product, from zero.
inline void product_with(const float* a, long a_row, long rows, const float* panel, long depth,
                         float* sums) {
  for (long i = 0; i < rows * kTile; ++i) sums[i] = 0;
  for (long r = 0; r < rows; r += kRows) {
    tile_of<static_cast<int>(kRows)>(least(kRows, rows - r), a + r * a_row, a_row, panel, depth,
                                     sums + r * kTile, kTile);
  }
}

// Queries [begin, begin + count) of one head, at most a tile.
inline void attend_tile(const AttentionJob& job, long image, long head, long begin, long count) {
  const long channels = job.width / job.heads;
  const float* q = job.q + (image * job.queries + begin) * job.width + head * channels;
  const float* k = job.k + image * job.keys * job.width + head * channels;
  const float* v = job.v_turned + (image * job.width + head * channels) * job.keys;
  float* out = job.out + (image * job.queries + begin) * job.width + head * channels;

  float* panel = panel_scratch.room(channels * kTile);
  for (long c = 0; c < channels; ++c) {
    for (long j = 0; j < kTile; ++j) {
      panel[c * kTile + j] = j < count ? job.scale * q[j * job.width + c] : 0;
    }
  }
  // Of a causal tile, keys past its last query are no part at all.
  const long keys = job.causal ? least(job.keys, begin + count) : job.keys;
  float* scores = sums_scratch.room(keys * kTile);
  product_with(k, job.width, keys, panel, channels, scores);
  for (long key = begin + 1; job.causal && key < keys; ++key) {
    for (long j = 0; j < key - begin && j < kTile; ++j) scores[key * kTile + j] = -1e30F;
  }
  alignas(4 * LARES_LANES) float sums[kTile];
  soften(scores, keys, sums);
  float* mixed = weights_scratch.room(channels * kTile);
  product_with(v, job.keys, channels, scores, keys, mixed);
  for (long j = 0; j < count; ++j) {
    const float share = 1 / sums[j];
    for (long c = 0; c < channels; ++c) out[j * job.width + c] = share * mixed[c * kTile + j];
  }
}

inline void attention(const AttentionJob& job, int ith, int nth) {
  const long tiles = (job.count + kTile - 1) / kTile;
  for (long item = ith; item < job.images * job.heads * tiles; item += nth) {
    const long image = item / (job.heads * tiles), head = item / tiles % job.heads;
    const long from = item % tiles * kTile;
    attend_tile(job, image, head, job.first + from, least(kTile, job.count - from));
  }
}

}  // namespace lares::diffusion::LARES_KERNELS
