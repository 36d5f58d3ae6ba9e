#include "engine/diffusion/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "core/json.h"
#include "engine/diffusion/half.h"

namespace lares::diffusion {

class Safetensors::File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }

  [[nodiscard]] bool read(void* out, std::uint64_t bytes, std::uint64_t at) const {
    auto* to = static_cast<char*>(out);
    while (bytes > 0) {
      const ssize_t n = pread(fd_, to, bytes, static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      to += n;
      at += static_cast<std::uint64_t>(n);
      bytes -= static_cast<std::uint64_t>(n);
    }
    return true;
  }
  [[nodiscard]] std::optional<std::uint64_t> size() const {
    struct stat info {};
    if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    return static_cast<std::uint64_t>(info.st_size);
  }

 private:
  int fd_;
};

namespace {

constexpr std::uint64_t kLengthBytes = 8;  // The header's length, little-endian, comes first.

std::uint64_t bytes_of_type(std::string_view name) {
  struct Row {
    std::string_view name;
    std::uint64_t bytes;
  };
  constexpr Row kTypes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8},     {"I64", 8},
                            {"U64", 8}, {"I32", 4}, {"U32", 4},  {"I16", 2},     {"U16", 2},
                            {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const Row& row : kTypes) {
    if (row.name == name) return row.bytes;
  }
  return 0;
}

DataType type_of(std::string_view name) {
  if (name == "F32") return DataType::F32;
  if (name == "F16") return DataType::F16;
  if (name == "BF16") return DataType::Bf16;
  return DataType::Other;
}

// One member of the header, checked against itself; offsets are still relative to the data.
Result<TensorInfo> read_entry(const std::string& path, const json::Member& member) {
  const auto bad = [&](std::string_view what) {
    return fail(Code::Corrupt, fmt::format("{}: tensor {}: {}", path, member.first, what));
  };
  json::Problem problem;
  const json::Fields fields(member.second, "", problem);
  const std::string* type = fields.string("dtype");
  const json::Array* shape = fields.array("shape");
  const json::Array* offsets = fields.array("data_offsets");
  if (problem) return bad(problem.message);
  if (type == nullptr || shape == nullptr || offsets == nullptr || offsets->size() != 2) {
    return bad("needs dtype, shape and two data_offsets");
  }
  const std::uint64_t unit = bytes_of_type(*type);
  if (unit == 0) return bad(fmt::format("unknown dtype {}", *type));
  if (shape->size() > Safetensors::kDimensionsMax) {
    return bad(
        fmt::format("{} dimensions; at most {}", shape->size(), Safetensors::kDimensionsMax));
  }
  TensorInfo info{.name = member.first, .type = type_of(*type), .type_name = *type, .shape = {}};
  std::uint64_t elements = 1;
  constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 40U;
  for (const json::Value& value : *shape) {
    const auto extent = value.integer();
    if (!extent || *extent < 0) return bad("a dimension that is no whole number >= 0");
    const auto n = static_cast<std::uint64_t>(*extent);
    if (n > 0 && elements > kElementsMax / n) return bad("more elements than any file holds");
    elements *= n;
    info.shape.push_back(*extent);
  }
  const auto begin = (*offsets)[0].integer();
  const auto end = (*offsets)[1].integer();
  if (!begin || !end || *begin < 0 || *end < *begin) return bad("data_offsets make no sense");
  info.elements = static_cast<std::int64_t>(elements);
  info.offset = static_cast<std::uint64_t>(*begin);
  info.bytes = static_cast<std::uint64_t>(*end - *begin);
  if (info.bytes != elements * unit) {
    return bad(fmt::format("its shape needs {} bytes, its data_offsets hold {}", elements * unit,
                           info.bytes));
  }
  return info;
}

// The tensors fill the data from its first byte to its last.
Result<> check_layout(const std::string& path, const std::vector<TensorInfo>& tensors,
                      std::uint64_t data_bytes) {
  std::vector<const TensorInfo*> order;
  order.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, [](const TensorInfo* a, const TensorInfo* b) {
    return a->offset != b->offset ? a->offset < b->offset : a->bytes < b->bytes;
  });
  std::uint64_t at = 0;
  for (const TensorInfo* tensor : order) {
    if (tensor->offset != at) {
      return fail(
          Code::Corrupt,
          fmt::format("{}: tensor {}: begins at byte {} of the data, where {} was expected: "
                      "it overlaps another, or leaves a hole",
                      path, tensor->name, tensor->offset, at));
    }
    at += tensor->bytes;
    if (at > data_bytes) {
      return fail(Code::Corrupt,
                  fmt::format("{}: tensor {}: ends at byte {} of the data, which has {}", path,
                              tensor->name, at, data_bytes));
    }
  }
  if (at != data_bytes) {
    return fail(Code::Corrupt,
                fmt::format("{}: {} bytes of data belong to no tensor", path, data_bytes - at));
  }
  return {};
}

}  // namespace

Result<Safetensors> Safetensors::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    return fail(error == ENOENT ? Code::NotFound : Code::Io,
                fmt::format("{}: {}", path, std::strerror(error)));
  }
  Safetensors out;
  out.path_ = path;
  out.file_ = std::make_shared<File>(fd);
  const auto size = out.file_->size();
  if (!size) return fail(Code::Io, fmt::format("{}: not a regular file", path));
  std::uint64_t length = 0;
  if (*size < kLengthBytes || !out.file_->read(&length, kLengthBytes, 0)) {
    return fail(Code::Corrupt, fmt::format("{}: too short for a safetensors file", path));
  }
  if (length > *size - kLengthBytes) {
    return fail(Code::Corrupt, fmt::format("{}: says its header has {} bytes, the file has {}",
                                           path, length, *size));
  }
  if (length > kHeaderMax) {
    return fail(Code::TooLarge,
                fmt::format("{}: a header of {} bytes; at most {}", path, length, kHeaderMax));
  }
  std::string header(length, '\0');
  if (!out.file_->read(header.data(), length, kLengthBytes)) {
    return fail(Code::Io, fmt::format("{}: the header cannot be read", path));
  }
  const auto parsed = json::parse(header);
  const json::Object* object = parsed ? parsed->as<json::Object>() : nullptr;
  if (object == nullptr) {
    return fail(Code::Corrupt, fmt::format("{}: the header is no JSON object: {}", path,
                                           parsed ? "another value" : parsed.error().message));
  }
  if (object->size() > kTensorsMax) {
    return fail(Code::TooLarge,
                fmt::format("{}: {} tensors; at most {}", path, object->size(), kTensorsMax));
  }
  for (const json::Member& member : *object) {
    if (member.first != "__metadata__") out.tensors_.push_back(TRY(read_entry(path, member)));
  }
  const std::uint64_t data = kLengthBytes + length;
  TRY_VOID(check_layout(path, out.tensors_, *size - data));
  for (TensorInfo& tensor : out.tensors_) tensor.offset += data;
  std::ranges::sort(out.tensors_, {}, &TensorInfo::name);
  return out;
}

const TensorInfo* Safetensors::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(tensors_, name, {}, &TensorInfo::name);
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

Result<std::vector<std::byte>> Safetensors::bytes_of(const TensorInfo& tensor) const {
  std::vector<std::byte> bytes(tensor.bytes);
  if (!file_->read(bytes.data(), bytes.size(), tensor.offset)) {
    return fail(Code::Io, fmt::format("{}: tensor {}: cannot be read", path_, tensor.name));
  }
  return bytes;
}

Result<std::vector<float>> Safetensors::read(const TensorInfo& tensor) const {
  if (tensor.type == DataType::Other) {
    return fail(Code::Unsupported, fmt::format("{}: tensor {}: dtype {} where F32, F16 or BF16 is "
                                               "expected",
                                               path_, tensor.name, tensor.type_name));
  }
  const std::vector<std::byte> bytes = TRY(bytes_of(tensor));
  std::vector<float> values(static_cast<std::size_t>(tensor.elements));
  if (tensor.type == DataType::F32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes.data() + 2 * i, 2);
      values[i] = tensor.type == DataType::F16 ? float_of_half(half) : float_of_bfloat(half);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return fail(Code::Corrupt, fmt::format("{}: tensor {}: value {} is {}", path_, tensor.name, i,
                                             std::isnan(values[i]) ? "NaN" : "infinite"));
    }
  }
  return values;
}

Result<std::vector<std::int64_t>> Safetensors::read_integers(const TensorInfo& tensor) const {
  const std::vector<std::byte> bytes = TRY(bytes_of(tensor));
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.elements));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.type_name == "I64") {
      std::memcpy(&values[i], bytes.data() + 8 * i, 8);
    } else if (tensor.type_name == "I32") {
      std::int32_t value = 0;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      values[i] = value;
    } else {
      return fail(Code::Unsupported, fmt::format("{}: tensor {}: dtype {} where I32 or I64 is "
                                                 "expected",
                                                 path_, tensor.name, tensor.type_name));
    }
  }
  return values;
}

}  // namespace lares::diffusion
