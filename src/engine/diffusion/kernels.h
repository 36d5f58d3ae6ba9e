// Compute kernels of our own, for the processor: products, convolutions, group norms and GEGLU.
//
// ggml's convolution gathers its columns one value at a time and multiplies them at a fraction of
// what the processor can do; its broadcasts over maps go value by value. These kernels gather
// rows, keep a block of the result in registers, and add bias and residual on the way out; each is
// a custom node of a ggml graph, so graphs, buffers and slices work as with any other node. A
// product reads F32 or F16 weights and computes in F32 throughout. Other devices, and Q8_0 weights,
// use ggml's own nodes.
//
// One set of kernels is compiled for each kind of processor from kernels_tile.h and its neighbours,
// and chosen when a device is opened.
#pragma once

#include <cstdint>

namespace lares::diffusion {

// A matrix [rows][depth] times columns that are read from a map (a convolution) or from tokens.
struct GemmJob {
  const void* weight = nullptr;
  bool half = false;  // F16, not F32.
  long rows = 0, depth = 0;
  const float* bias = nullptr;      // [rows], or nullptr.
  long bias_step = 0;               // From one image's to the next one's, if each has its own.
  const float* residual = nullptr;  // As the output, or nullptr.
  const float* in = nullptr;
  float* out = nullptr;
  bool tokens_in = false;  // [image][position][channel], else [image][channel][row][column].
  bool tokens_out = false;
  long images = 1;
  long in_width = 1, in_height = 1;
  long out_width = 1, out_height = 1;
  long kernel = 1, stride = 1, pad = 0;  // Zeros on the left and above; whatever is missing
                                         // on the right and below is zero, too.
  long doubled = 0;           // 1: the map is taken as twice as large, each value four times.
  long first = 0, count = 0;  // Rows of the output to make.
};

// Group norm of a map, scaled and shifted by channel, then SiLU if asked for.
struct NormJob {
  const float* in = nullptr;
  float* out = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  long area = 0, channels = 0, images = 1, groups = 1;
  long first = 0, count = 0;  // Groups, counted through all images.
  float epsilon = 0;
  bool silu = false;
};

// out[i] = in[i] * gelu(in[width + i]) for rows of 2 * width values.
struct GegluJob {
  const float* in = nullptr;
  float* out = nullptr;
  long width = 0, rows = 0;
};

// softmax(scale q k^T) v for each head, without ever holding more of the scores than a tile's.
struct AttentionJob {
  const float* q = nullptr;               // [image][query][head, channel]
  const float* k = nullptr;               // [image][key][head, channel]
  const float* v_turned = nullptr;        // [image][head, channel][key]
  float* out = nullptr;                   // As q.
  long images = 1, heads = 1, width = 0;  // Of all heads together.
  long queries = 0, keys = 0;
  long first = 0, count = 0;  // Queries to answer.
  float scale = 1;
  bool causal = false;  // A query sees keys up to its own place.
};

// Thread `ith` of `nth` does its share; they may run in any order.
struct Kernels {
  const char* name;
  void (*gemm)(const GemmJob& job, int ith, int nth);
  void (*attention)(const AttentionJob& job, int ith, int nth);
  void (*norm)(const NormJob& job, int ith, int nth);
  void (*geglu)(const GegluJob& job, int ith, int nth);
};

const Kernels* plain_kernels();
const Kernels* avx2_kernels();    // nullptr if not compiled in.
const Kernels* avx512_kernels();  // nullptr if not compiled in.

// The fastest that this processor runs.
const Kernels* best_kernels();

}  // namespace lares::diffusion
