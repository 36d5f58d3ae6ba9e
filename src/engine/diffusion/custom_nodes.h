// Nodes of a ggml graph that run the kernels of kernels.h.
//
// A large one is cut into bands, each a node of its own that writes its part of the same tensor:
// the first makes the tensor, each other one is a view of the one before. What a node's function
// needs besides its tensors lies here, for as long as the graph lives.
#pragma once

#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include <ggml.h>

#include "engine/diffusion/kernels.h"

namespace lares::diffusion {

class CustomNodes {
 public:
  CustomNodes() = default;
  CustomNodes(const CustomNodes&) = delete;  // Nodes point into it.
  CustomNodes& operator=(const CustomNodes&) = delete;

  // `job` without its pointers; `ops` of all bands together. bias and residual may be nullptr.
  struct Product {
    GemmJob job;
    ggml_tensor *weight, *in, *bias, *residual;
    double ops;
    std::int64_t bands;
  };
  ggml_tensor* product(ggml_context* context, const Kernels* kernels, const Product& product);
  ggml_tensor* norm(ggml_context* context, const Kernels* kernels, const NormJob& job,
                    ggml_tensor* map, ggml_tensor* weight, ggml_tensor* bias, double ops,
                    std::int64_t bands);
  // Tokens of all heads side by side; `v_turned` is [keys, channels, batch].
  ggml_tensor* attention(ggml_context* context, const Kernels* kernels, const AttentionJob& job,
                         ggml_tensor* q, ggml_tensor* k, ggml_tensor* v_turned, double ops,
                         std::int64_t bands);
  ggml_tensor* geglu(ggml_context* context, const Kernels* kernels, ggml_tensor* rows, double ops);

  [[nodiscard]] double ops_of(const ggml_tensor* node) const;  // 0 if it is none of these.

 private:
  struct Call {
    const Kernels* kernels;
    GemmJob gemm{};
    NormJob norm{};
    AttentionJob attention{};
    int first_source = 0;  // Of the arguments among the node's sources.
    bool bias = false, residual = false;
  };
  static void run_product(ggml_tensor* node, int ith, int nth, void* call);
  static void run_attention(ggml_tensor* node, int ith, int nth, void* call);
  static void run_norm(ggml_tensor* node, int ith, int nth, void* call);
  static void run_geglu(ggml_tensor* node, int ith, int nth, void* call);
  // A node for each of the calls, all writing one tensor of this shape.
  ggml_tensor* chain(ggml_context* context, const std::int64_t (&shape)[4],
                     std::vector<ggml_tensor*> sources, ggml_custom_op_t function,
                     const std::vector<Call>& calls, double ops);

  std::deque<Call> calls_;
  std::unordered_map<const ggml_tensor*, double> ops_;  // Looked up only.
};

}  // namespace lares::diffusion
