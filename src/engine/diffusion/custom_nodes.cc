#include "engine/diffusion/custom_nodes.h"

#include "core/assert.h"

namespace lares::diffusion {
namespace {

const float* floats(const ggml_tensor* tensor) {
  return static_cast<const float*>(tensor->data);
}

}  // namespace

double CustomNodes::ops_of(const ggml_tensor* node) const {
  const auto found = ops_.find(node);
  return found == ops_.end() ? 0 : found->second;
}

ggml_tensor* CustomNodes::chain(ggml_context* context, const std::int64_t (&shape)[4],
                                std::vector<ggml_tensor*> sources, ggml_custom_op_t function,
                                const std::vector<Call>& calls, double ops) {
  ggml_tensor* out = nullptr;
  const int count = static_cast<int>(sources.size());
  for (const Call& one : calls) {
    Call& call = calls_.emplace_back(one);
    if (out == nullptr) {
      out = ggml_custom_4d(context, GGML_TYPE_F32, shape[0], shape[1], shape[2], shape[3],
                           sources.data(), count, function, GGML_N_TASKS_MAX, &call);
    } else {
      call.first_source = 1;
      out = ggml_custom_inplace(context, out, sources.data(), count, function, GGML_N_TASKS_MAX,
                                &call);
    }
    ops_.emplace(out, ops / static_cast<double>(calls.size()));
  }
  return out;
}

void CustomNodes::run_product(ggml_tensor* node, int ith, int nth, void* userdata) {
  const auto& call = *static_cast<const Call*>(userdata);
  ggml_tensor* const* source = node->src + call.first_source;
  GemmJob job = call.gemm;
  job.in = floats(source[0]);
  job.weight = source[1]->data;
  if (call.bias) job.bias = floats(source[2]);
  if (call.residual) job.residual = floats(source[call.bias ? 3 : 2]);
  job.out = static_cast<float*>(node->data);
  call.kernels->gemm(job, ith, nth);
}

ggml_tensor* CustomNodes::product(ggml_context* context, const Kernels* kernels,
                                  const Product& product) {
  const GemmJob& job = product.job;
  LARES_ASSERT(ggml_is_contiguous(product.in) && ggml_is_contiguous(product.weight),
               "a product over strided values");
  LARES_ASSERT(ggml_nelements(product.in) * job.kernel * job.kernel ==
                       job.images * job.in_width * job.in_height * job.depth &&
                   ggml_nelements(product.weight) == job.rows * job.depth,
               "{} values and {} weights for {} images of {} x {}, depth {}",
               ggml_nelements(product.in), ggml_nelements(product.weight), job.images, job.in_width,
               job.in_height, job.depth);
  std::vector<ggml_tensor*> sources = {product.in, product.weight};
  if (product.bias != nullptr) sources.push_back(product.bias);
  if (product.residual != nullptr) sources.push_back(product.residual);
  std::vector<Call> calls;
  for (std::int64_t i = 0; i < product.bands; ++i) {
    Call call{.kernels = kernels,
              .gemm = job,
              .bias = product.bias != nullptr,
              .residual = product.residual != nullptr};
    call.gemm.first = job.out_height * i / product.bands;
    call.gemm.count = job.out_height * (i + 1) / product.bands - call.gemm.first;
    calls.push_back(call);
  }
  if (job.tokens_out) {
    return chain(context, {job.rows, job.out_width * job.out_height, job.images, 1},
                 std::move(sources), run_product, calls, product.ops);
  }
  return chain(context, {job.out_width, job.out_height, job.rows, job.images}, std::move(sources),
               run_product, calls, product.ops);
}

void CustomNodes::run_norm(ggml_tensor* node, int ith, int nth, void* userdata) {
  const auto& call = *static_cast<const Call*>(userdata);
  ggml_tensor* const* source = node->src + call.first_source;
  NormJob job = call.norm;
  job.in = floats(source[0]);
  job.weight = floats(source[1]);
  job.bias = floats(source[2]);
  job.out = static_cast<float*>(node->data);
  call.kernels->norm(job, ith, nth);
}

ggml_tensor* CustomNodes::norm(ggml_context* context, const Kernels* kernels, const NormJob& job,
                               ggml_tensor* map, ggml_tensor* weight, ggml_tensor* bias, double ops,
                               std::int64_t bands) {
  LARES_ASSERT(ggml_is_contiguous(map), "a norm over strided values");
  const std::int64_t groups = job.groups * job.images;
  std::vector<Call> calls;
  for (std::int64_t i = 0; i < bands; ++i) {
    Call call{.kernels = kernels, .norm = job};
    call.norm.first = groups * i / bands;
    call.norm.count = groups * (i + 1) / bands - call.norm.first;
    calls.push_back(call);
  }
  return chain(context, {map->ne[0], map->ne[1], map->ne[2], map->ne[3]}, {map, weight, bias},
               run_norm, calls, ops);
}

void CustomNodes::run_attention(ggml_tensor* node, int ith, int nth, void* userdata) {
  const auto& call = *static_cast<const Call*>(userdata);
  ggml_tensor* const* source = node->src + call.first_source;
  AttentionJob job = call.attention;
  job.q = floats(source[0]);
  job.k = floats(source[1]);
  job.v_turned = floats(source[2]);
  job.out = static_cast<float*>(node->data);
  call.kernels->attention(job, ith, nth);
}

ggml_tensor* CustomNodes::attention(ggml_context* context, const Kernels* kernels,
                                    const AttentionJob& job, ggml_tensor* q, ggml_tensor* k,
                                    ggml_tensor* v_turned, double ops, std::int64_t bands) {
  LARES_ASSERT(ggml_is_contiguous(q) && ggml_is_contiguous(k) && ggml_is_contiguous(v_turned),
               "attention over strided values");
  std::vector<Call> calls;
  for (std::int64_t i = 0; i < bands; ++i) {
    Call call{.kernels = kernels, .attention = job};
    call.attention.first = job.queries * i / bands;
    call.attention.count = job.queries * (i + 1) / bands - call.attention.first;
    calls.push_back(call);
  }
  return chain(context, {q->ne[0], q->ne[1], q->ne[2], 1}, {q, k, v_turned}, run_attention, calls,
               ops);
}

void CustomNodes::run_geglu(ggml_tensor* node, int ith, int nth, void* userdata) {
  const auto& call = *static_cast<const Call*>(userdata);
  const GegluJob job{.in = floats(node->src[0]),
                     .out = static_cast<float*>(node->data),
                     .width = node->ne[0],
                     .rows = ggml_nrows(node)};
  call.kernels->geglu(job, ith, nth);
}

ggml_tensor* CustomNodes::geglu(ggml_context* context, const Kernels* kernels, ggml_tensor* rows,
                                double ops) {
  LARES_ASSERT(ggml_is_contiguous(rows), "GEGLU over strided values");
  return chain(context, {rows->ne[0] / 2, rows->ne[1], rows->ne[2], rows->ne[3]}, {rows}, run_geglu,
               {Call{.kernels = kernels}}, ops);
}

}  // namespace lares::diffusion
