#include "engine/diffusion/graph.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <ggml.h>

#include "core/assert.h"
#include "core/text.h"

namespace lares::diffusion {
namespace {

constexpr std::size_t kNodesMax = 32768;
constexpr double kStretchOps = 2e7;
constexpr double kNodeOps = 5e3;  // What starting a node costs.

Duration clock_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

std::int64_t Builder::bands(double ops, std::int64_t rows) const {
  if (ops_max_ <= 0 || ops <= ops_max_) return 1;
  return std::min(rows, static_cast<std::int64_t>(std::ceil(ops / ops_max_)));
}

ggml_tensor* Builder::input(ggml_type type, std::span<const std::int64_t> ne) const {
  ggml_tensor* tensor = ggml_new_tensor(context_, type, static_cast<int>(ne.size()), ne.data());
  ggml_set_input(tensor);
  return tensor;
}

double node_ops(const ggml_tensor* node) {
  const auto values = static_cast<double>(ggml_nelements(node));
  switch (node->op) {
    case GGML_OP_NONE:
    case GGML_OP_VIEW:
    case GGML_OP_RESHAPE:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE: return 0;
    case GGML_OP_MUL_MAT: return kNodeOps + 2 * static_cast<double>(node->src[0]->ne[0]) * values;
    case GGML_OP_CONV_2D: {
      const ggml_tensor* kernel = node->src[0];
      const auto taps = static_cast<double>(kernel->ne[0] * kernel->ne[1] * kernel->ne[2]);
      const double patches = values / static_cast<double>(node->ne[2]);
      return kNodeOps + 2 * taps * values + 32 * taps * patches;  // The second term gathers.
    }
    case GGML_OP_SOFT_MAX:
    case GGML_OP_GLU:
    case GGML_OP_UNARY:
    case GGML_OP_NORM:
    case GGML_OP_GROUP_NORM: return kNodeOps + 40 * values;
    default: return kNodeOps + 20 * values;
  }
}

Result<std::unique_ptr<Graph>> Graph::create(const Device& device, double ops_max, Bytes bytes_max,
                                             std::string_view what, const Build& build) {
  std::unique_ptr<Graph> out(new Graph);
  const std::size_t memory =
      2 * kNodesMax * ggml_tensor_overhead() + 2 * ggml_graph_overhead_custom(kNodesMax, false);
  out->context_.reset(ggml_init({.mem_size = memory, .mem_buffer = nullptr, .no_alloc = true}));
  LARES_ASSERT(out->context_ != nullptr, "no memory to describe a graph");
  ggml_context* context = out->context_.get();
  out->graph_ = ggml_new_graph_custom(context, kNodesMax, false);
  out->part_ = ggml_new_graph_custom(context, kNodesMax, false);
  out->output_ = build(Builder(context, ops_max, device.kernels(), &out->custom_));
  ggml_set_output(out->output_);
  ggml_build_forward_expand(out->graph_, out->output_);

  ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(device.backend());
  std::size_t need = 0;
  {
    // With an allocator of its own: one that was asked for sizes has no buffers, and does not know.
    const Allocator sizes(ggml_gallocr_new(type));
    ggml_gallocr_reserve_n_size(sizes.get(), out->graph_, nullptr, nullptr, &need);
  }
  if (static_cast<std::int64_t>(need) > bytes_max.count) {
    return fail(Code::TooLarge, fmt::format("{} needs a compute buffer of {}; {} are left", what,
                                            format_bytes(static_cast<std::int64_t>(need)),
                                            format_bytes(bytes_max.count)));
  }
  out->allocator_.reset(ggml_gallocr_new(type));
  if (!ggml_gallocr_alloc_graph(out->allocator_.get(), out->graph_)) {
    return fail(Code::TooLarge, fmt::format("{}: no memory for a compute buffer of {}", what,
                                            format_bytes(static_cast<std::int64_t>(need))));
  }
  out->cut_into_stretches();
  return out;
}

Bytes Graph::bytes() const {
  return Bytes{static_cast<std::int64_t>(ggml_gallocr_get_buffer_size(allocator_.get(), 0))};
}

void Graph::cut_into_stretches() {
  const int nodes = ggml_graph_n_nodes(graph_);
  Stretch stretch{0, 0, 0};
  for (int i = 0; i < nodes; ++i) {
    ggml_tensor* node = ggml_graph_node(graph_, i);
    const double own = custom_.ops_of(node);
    const double ops = own > 0 ? own + kNodeOps : node_ops(node);
    if (stretch.ops > 0 && stretch.ops + ops > kStretchOps) {
      stretches_.push_back(stretch);
      stretch = {i, i, 0};
    }
    stretch.end = i + 1;
    stretch.ops += ops;
    ops_ += ops;
    largest_ = std::max(largest_, ops);
  }
  if (stretch.end > stretch.begin) stretches_.push_back(stretch);
}

Result<Graph::Ran> Graph::run(const Device& device, Duration most) {
  Ran ran;
  const Duration begin = clock_now();
  Duration before = begin;
  while (next_ < stretches_.size()) {
    const Stretch& stretch = stretches_[next_];
    const Duration expected(static_cast<std::int64_t>(stretch.ops * ns_per_op_));
    if (most > Duration::zero() && before > begin && before - begin + expected > most) break;
    ggml_graph_clear(part_);
    for (int i = stretch.begin; i < stretch.end; ++i) {
      ggml_graph_add_node(part_, ggml_graph_node(graph_, i));
    }
    if (ggml_backend_graph_compute(device.backend(), part_) != GGML_STATUS_SUCCESS) {
      return fail(Code::Unavailable, "the device could not compute a part of the graph");
    }
    ++next_;
    const Duration now = clock_now();
    const Duration took = now - before;
    ran.longest = std::max(ran.longest, took);
    if (stretch.ops > 0) {
      ns_per_op_ += 0.05 * (static_cast<double>(took.count()) / stretch.ops - ns_per_op_);
    }
    before = now;
  }
  ran.done = next_ == stretches_.size();
  ran.took = before - begin;
  return ran;
}

}  // namespace lares::diffusion
