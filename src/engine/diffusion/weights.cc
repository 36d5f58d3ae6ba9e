#include "engine/diffusion/weights.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ggml.h>

#include "core/assert.h"

namespace lares::diffusion {
namespace {

constexpr std::size_t kWeightsMax = 8192;  // Tensors of one component; SD 1.5's U-Net has 686.

ggml_type type_for(Precision precision, Role role, std::int64_t row) {
  if (role == Role::Vector || precision == Precision::F32) return GGML_TYPE_F32;
  if (role != Role::Matrix || precision == Precision::F16) return GGML_TYPE_F16;
  return row % ggml_blck_size(GGML_TYPE_Q8_0) == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
}

// [C, C, 1, 1] holds the same values as [C, C].
std::vector<std::int64_t> without_trailing_ones(std::vector<std::int64_t> shape) {
  while (!shape.empty() && shape.back() == 1) shape.pop_back();
  return shape;
}

// Values in the tensor's own type, as its data.
void store(const std::vector<float>& values, ggml_tensor* tensor) {
  if (tensor->type == GGML_TYPE_F32) {
    ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    return;
  }
  std::vector<std::byte> data(ggml_nbytes(tensor));
  const std::int64_t row = tensor->ne[0];
  ggml_quantize_chunk(tensor->type, values.data(), data.data(), 0, ggml_nelements(tensor) / row,
                      row, nullptr);
  ggml_backend_tensor_set(tensor, data.data(), 0, data.size());
}

}  // namespace

WeightTable::WeightTable(Precision precision)
    : precision_(precision), context_(make_context(kWeightsMax)) {}

ggml_tensor* WeightTable::add(std::string name, std::vector<std::int64_t> shape, Role role,
                              std::string old_name) {
  LARES_ASSERT(!shape.empty() && shape.size() <= GGML_MAX_DIMS && entries_.size() < kWeightsMax,
               "{} dimensions, {} tensors", shape.size(), entries_.size());
  const std::vector<std::int64_t> ne(shape.rbegin(), shape.rend());  // ggml: innermost first.
  ggml_tensor* tensor = ggml_new_tensor(context_.get(), type_for(precision_, role, ne[0]),
                                        static_cast<int>(ne.size()), ne.data());
  entries_.push_back({std::move(name), std::move(old_name), std::move(shape), tensor});
  return tensor;
}

const TensorInfo* WeightTable::find(const Safetensors& file, const Entry& entry) const {
  const TensorInfo* info = file.find(entry.name);
  return info != nullptr || entry.old_name.empty() ? info : file.find(entry.old_name);
}

Result<> WeightTable::check(const Safetensors& file) const {
  std::set<std::string_view> used;
  for (const Entry& entry : entries_) {
    const TensorInfo* info = find(file, entry);
    if (info == nullptr) {
      return fail(Code::Corrupt, fmt::format("{}: tensor {}: missing", file.path(), entry.name));
    }
    if (without_trailing_ones(info->shape) != without_trailing_ones(entry.shape)) {
      return fail(Code::Corrupt, fmt::format("{}: tensor {}: has shape {}, the config asks for {}",
                                             file.path(), info->name, info->shape, entry.shape));
    }
    used.insert(info->name);
  }
  for (const TensorInfo& info : file.tensors()) {
    if (used.contains(info.name) || std::ranges::find(allowed_, info.name) != allowed_.end()) {
      continue;
    }
    return fail(Code::Corrupt, fmt::format("{}: tensor {}: nothing in the config accounts for it",
                                           file.path(), info.name));
  }
  return {};
}

Result<> WeightTable::load(const std::string& path, ggml_backend_t backend) {
  const Safetensors file = TRY(Safetensors::open(path));
  TRY_VOID(check(file));
  buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend));
  if (!buffer_) {
    return fail(Code::TooLarge, fmt::format("{}: no device memory for its weights", path));
  }
  ggml_backend_buffer_set_usage(buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  bytes_ = Bytes{static_cast<std::int64_t>(ggml_backend_buffer_get_size(buffer_.get()))};
  for (const Entry& entry : entries_) store(TRY(file.read(*find(file, entry))), entry.tensor);
  return {};
}

Scope Scope::operator[](std::string_view name) const {
  return Scope(*table_, prefix_.empty() ? std::string(name) : fmt::format("{}.{}", prefix_, name));
}

Scope Scope::operator[](std::size_t index) const {
  return (*this)[fmt::to_string(index)];
}

ggml_tensor* Scope::add(std::string_view name, std::vector<std::int64_t> shape, Role role,
                        std::string_view old_name) const {
  const auto full = [this](std::string_view part) {
    return prefix_.empty() ? std::string(part) : fmt::format("{}.{}", prefix_, part);
  };
  return table_->add(full(name), std::move(shape), role,
                     old_name.empty() ? std::string() : full(old_name));
}

}  // namespace lares::diffusion
