// One ggml graph with its buffer, built once for a shape and run many times, a slice at a time.
//
// A pass over it is a row of stretches: neighbouring nodes of together about a millisecond, by a
// rough count of operations. Between two of them the pass can rest for as long as anybody likes:
// its intermediate values lie in the graph's own buffer. Inputs lose their values during a pass and
// are set before each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <ggml-alloc.h>

#include "core/result.h"
#include "core/types.h"
#include "engine/diffusion/custom_nodes.h"
#include "engine/diffusion/device.h"

namespace lares::diffusion {

// Where a graph is being put together: the context, its inputs, and how large a node may be.
class Builder {
 public:
  Builder(ggml_context* context, double ops_max, const Kernels* kernels, CustomNodes* custom)
      : context_(context), ops_max_(ops_max), kernels_(kernels), custom_(custom) {}

  [[nodiscard]] ggml_context* context() const { return context_; }
  // Operations of one node, by the count of node_ops(); 0 = no limit.
  [[nodiscard]] double ops_max() const { return ops_max_; }
  // Into how many bands of at most `rows` an op of so many operations is cut.
  [[nodiscard]] std::int64_t bands(double ops, std::int64_t rows) const;

  // For nodes of our own; nullptr if the device runs ggml's only.
  [[nodiscard]] const Kernels* kernels() const { return kernels_; }
  [[nodiscard]] CustomNodes& custom() const { return *custom_; }

  ggml_tensor* input(ggml_type type, std::span<const std::int64_t> ne) const;

 private:
  ggml_context* context_;
  double ops_max_;
  const Kernels* kernels_;
  CustomNodes* custom_;
};

// A rough count of what one of ggml's nodes costs: multiplications and additions of a product, a
// few operations per value for anything else.
double node_ops(const ggml_tensor* node);

class Graph {
 public:
  // Returns the output. `bytes_max` bounds the buffer. Errors: TooLarge, with the numbers.
  using Build = std::function<ggml_tensor*(const Builder&)>;
  static Result<std::unique_ptr<Graph>> create(const Device& device, double ops_max,
                                               Bytes bytes_max, std::string_view what,
                                               const Build& build);

  [[nodiscard]] Bytes bytes() const;
  [[nodiscard]] ggml_tensor* output() const { return output_; }
  [[nodiscard]] double ops() const { return ops_; }
  [[nodiscard]] double ops_of_largest_node() const { return largest_; }

  void start() { next_ = 0; }
  struct Ran {
    bool done = false;
    Duration took{};
    Duration longest{};  // Stretch.
  };
  // Runs stretches while the next one is expected to end within `most`; one at least; all of them
  // if `most` is 0. Errors: Unavailable.
  Result<Ran> run(const Device& device, Duration most);

 private:
  Graph() = default;
  void cut_into_stretches();

  struct FreeAllocator {
    void operator()(ggml_gallocr_t allocator) const { ggml_gallocr_free(allocator); }
  };
  using Allocator = std::unique_ptr<ggml_gallocr, FreeAllocator>;
  struct Stretch {
    int begin, end;
    double ops;
  };
  CustomNodes custom_;
  Context context_;
  Allocator allocator_;
  ggml_cgraph* graph_ = nullptr;  // In context_.
  ggml_cgraph* part_ = nullptr;   // The stretch being run.
  ggml_tensor* output_ = nullptr;
  std::vector<Stretch> stretches_;
  std::size_t next_ = 0;
  double ops_ = 0;
  double largest_ = 0;
  double ns_per_op_ = 0.1;  // Learned.
};

}  // namespace lares::diffusion
