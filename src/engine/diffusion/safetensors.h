// Reads safetensors files: a JSON header with names, types, shapes and offsets, then raw tensors.
//
// Nothing in the header is believed: lengths, offsets and shapes are held against each other and
// against the file before anything is allocated from them, as the format's own rules demand (the
// tensors fill the data exactly, in any order, without holes or overlaps). Values are read with
// pread, so a file cut short while it is open is an error and not a crash.
//
// One thread. Format: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace lares::diffusion {

enum class DataType : std::uint8_t { F32, F16, Bf16, Other };

struct TensorInfo {
  std::string name;
  DataType type = DataType::Other;
  std::string type_name;            // As the file spells it: "F16".
  std::vector<std::int64_t> shape;  // Outermost dimension first, as the file has it.
  std::uint64_t offset = 0;         // From the start of the file.
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
};

class Safetensors {
 public:
  // Most bytes of a header, tensors, and dimensions of one. Real files of this family stay below a
  // thousandth of each.
  static constexpr std::uint64_t kHeaderMax = 16U << 20U;
  static constexpr std::size_t kTensorsMax = 65536;
  static constexpr std::size_t kDimensionsMax = 8;

  // Errors: NotFound, Io, TooLarge, Corrupt; each names the file, and the tensor where it is one.
  static Result<Safetensors> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }  // By name.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;

  // The values as F32. Errors: Unsupported (integers), Corrupt (one is NaN or infinite), Io.
  [[nodiscard]] Result<std::vector<float>> read(const TensorInfo& tensor) const;
  // Of an I32 or I64 tensor, for test values.
  [[nodiscard]] Result<std::vector<std::int64_t>> read_integers(const TensorInfo& tensor) const;

 private:
  class File;

  Safetensors() = default;
  [[nodiscard]] Result<std::vector<std::byte>> bytes_of(const TensorInfo& tensor) const;

  std::string path_;
  std::shared_ptr<File> file_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace lares::diffusion
