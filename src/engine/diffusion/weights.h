// The weights of one component: declared by name and shape, then read from its safetensors file.
//
// Layers declare what they need while the model is put together from its config; `load` then holds
// the file to it: every declared tensor there, with that shape, finite, and none besides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "engine/diffusion/device.h"
#include "engine/diffusion/diffusion.h"
#include "engine/diffusion/safetensors.h"

namespace lares::diffusion {

// What a tensor is used for decides the type it is kept in.
enum class Role : std::uint8_t {
  Vector,  // Biases and norms: F32 always.
  Matrix,  // Multiplied: any precision. Rows that Q8_0 cannot hold stay F16.
  Kernel,  // Of a convolution: F32, or F16 for anything less.
  Table,   // Rows are looked up: as Kernel.
};

class WeightTable {
 public:
  explicit WeightTable(Precision precision);

  // `shape` is the file's, outermost first. The tensor has no data before load(). `old_name` is
  // what older files call it.
  ggml_tensor* add(std::string name, std::vector<std::int64_t> shape, Role role,
                   std::string old_name = "");

  // Names in the file that belong to nothing here and may be there: exact, or "encoder." prefixes.
  void allow(std::string name) { allowed_.push_back(std::move(name)); }

  // Errors: Corrupt (missing, extra, misshapen, not finite: named), Unsupported, Io, TooLarge.
  Result<> load(const std::string& path, ggml_backend_t backend);

  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string name, old_name;
    std::vector<std::int64_t> shape;
    ggml_tensor* tensor;
  };
  [[nodiscard]] const TensorInfo* find(const Safetensors& file, const Entry& entry) const;
  [[nodiscard]] Result<> check(const Safetensors& file) const;

  Precision precision_;
  Context context_;
  Buffer buffer_;
  std::vector<Entry> entries_;
  std::vector<std::string> allowed_;
  Bytes bytes_;
};

// A place in the tree of names: "down_blocks.0" and, inside it, "resnets.1".
class Scope {
 public:
  explicit Scope(WeightTable& table, std::string prefix = "") : table_(&table), prefix_(prefix) {}
  [[nodiscard]] Scope operator[](std::string_view name) const;
  [[nodiscard]] Scope operator[](std::size_t index) const;
  ggml_tensor* add(std::string_view name, std::vector<std::int64_t> shape, Role role,
                   std::string_view old_name = "") const;

 private:
  WeightTable* table_;
  std::string prefix_;
};

}  // namespace lares::diffusion
