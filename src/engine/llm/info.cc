#include "engine/llm/info.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <gguf.h>
#include <llama.h>

namespace lares::llm {
namespace {

std::string metadata(const llama_model* model, const std::string& key) {
  std::array<char, 256> text{};
  if (llama_model_meta_val_str(model, key.c_str(), text.data(), text.size()) < 0) return "";
  return text.data();
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint32_t positive(std::int32_t value) {
  return value > 0 ? static_cast<std::uint32_t>(value) : 0;
}

engine::Capabilities capabilities(const llama_model* model, const std::string& architecture) {
  engine::Capabilities can;
  can.window = positive(llama_model_n_swa(model));
  can.sliding_window = can.window > 0;
  can.recurrent = llama_model_is_recurrent(model) || llama_model_is_hybrid(model);
  can.cut_anywhere = !can.recurrent && !can.sliding_window;
  const int pooling = pooling_type(model);
  const bool causal = metadata(model, architecture + ".attention.causal") != "false";
  can.whole_text = !causal || !llama_model_has_decoder(model);
  // A reranker has a head instead. Of an encoder that says nothing the mean is taken.
  can.embeds =
      pooling == LLAMA_POOLING_TYPE_MEAN || pooling == LLAMA_POOLING_TYPE_CLS ||
      pooling == LLAMA_POOLING_TYPE_LAST ||
      (can.whole_text && pooling != LLAMA_POOLING_TYPE_RANK && !llama_model_is_diffusion(model));
  can.generates = causal && llama_model_has_decoder(model) && !llama_model_has_encoder(model) &&
                  !llama_model_is_diffusion(model) && pooling <= LLAMA_POOLING_TYPE_NONE;
  can.has_chat_template = llama_model_chat_template(model, nullptr) != nullptr;
  return can;
}

// "x-00001-of-00003.gguf" -> part 1 of 3.
struct Part {
  std::string prefix;
  std::uint32_t number = 0, count = 0;
};
std::optional<Part> part_of(const std::string& path) {
  constexpr std::size_t kTail = sizeof("-00001-of-00003.gguf") - 1;
  if (path.size() <= kTail) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kTail);
  const auto part = number(tail.substr(1, 5));
  const auto count = number(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf" || !part ||
      !count) {
    return std::nullopt;
  }
  return Part{path.substr(0, path.size() - kTail), *part, *count};
}

Result<std::uint64_t> file_size(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return fail(errno == ENOENT || errno == ENOTDIR ? Code::NotFound : Code::Io,
                fmt::format("{}: {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) return fail(Code::Invalid, path + " is not a file");
  return static_cast<std::uint64_t>(status.st_size);
}

Result<> check_head(const std::string& path, std::uint64_t size) {
  constexpr std::uint64_t kHead = 24;  // Magic, version, number of tensors, number of keys.
  if (size == 0) return fail(Code::Corrupt, path + " is empty");
  std::array<unsigned char, kHead> head{};
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(Code::Io, fmt::format("{}: {}", path, std::strerror(errno)));
  file.read(reinterpret_cast<char*>(head.data()), head.size());
  if (file.gcount() < 4 || std::memcmp(head.data(), "GGUF", 4) != 0) {
    return fail(Code::Corrupt, path +
                                   " is not a GGUF file (it does not begin with GGUF); only "
                                   "models in that format can be served");
  }
  if (size < kHead) return fail(Code::Corrupt, path + " is truncated: it ends inside its header");
  std::uint32_t version = 0;
  std::memcpy(&version, head.data() + 4, sizeof version);
  if (version >= 0x1000000U && version % 0x10000U == 0) {
    return fail(Code::Unsupported, path + " was written for a big-endian machine");
  }
  if (version < 2 || version > 3) {
    return fail(Code::Unsupported,
                fmt::format("{} is GGUF version {}; versions 2 and 3 can be read", path, version));
  }
  return {};
}

// The table of tensors says how long the file must be.
Result<> check_length(const std::string& path, std::uint64_t size) {
  gguf_init_params params{};
  params.no_alloc = true;
  const std::unique_ptr<gguf_context, decltype(&gguf_free)> file(
      gguf_init_from_file(path.c_str(), params), gguf_free);
  if (!file) {
    return fail(Code::Corrupt, path + " is damaged or truncated: its header cannot be read");
  }
  std::uint64_t need = 0;
  for (std::int64_t i = 0; i < gguf_get_n_tensors(file.get()); ++i) {
    const std::uint64_t end = gguf_get_data_offset(file.get()) +
                              gguf_get_tensor_offset(file.get(), i) +
                              gguf_get_tensor_size(file.get(), i);
    need = std::max(need, end);
  }
  if (need > size) {
    return fail(Code::Corrupt,
                fmt::format("{} is truncated: {} bytes of {}; copy it again", path, size, need));
  }
  return {};
}

Result<> check_part(const std::string& path) {
  const std::uint64_t size = TRY(file_size(path));
  TRY_VOID(check_head(path, size));
  return check_length(path, size);
}

}  // namespace

engine::ModelInfo describe_model(const llama_model* model) {
  engine::ModelInfo info;
  info.architecture = metadata(model, "general.architecture");
  std::array<char, 128> text{};
  llama_model_desc(model, text.data(), text.size());
  info.description = text.data();
  info.parameters = llama_model_n_params(model);
  info.weights = Bytes{static_cast<std::int64_t>(llama_model_size(model))};
  info.kv_per_token = kv_bytes_per_token(model);
  info.context = positive(llama_model_n_ctx_train(model));
  info.vocabulary = positive(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  info.embedding = positive(llama_model_n_embd_out(model));
  info.can = capabilities(model, info.architecture);
  return info;
}

int pooling_type(const llama_model* model) {
  const std::string architecture = metadata(model, "general.architecture");
  const auto type = number(metadata(model, architecture + ".pooling_type"));
  return type ? static_cast<int>(*type) : -1;
}

Bytes kv_bytes_per_token(const llama_model* model) {
  const std::string architecture = metadata(model, "general.architecture");
  const std::uint32_t heads = positive(llama_model_n_head(model));
  const std::uint32_t width = heads == 0 ? 0 : positive(llama_model_n_embd(model)) / heads;
  const std::uint32_t key =
      number(metadata(model, architecture + ".attention.key_length")).value_or(width);
  const std::uint32_t value =
      number(metadata(model, architecture + ".attention.value_length")).value_or(width);
  constexpr std::int64_t kHalf = 2;  // Bytes of an F16.
  return Bytes{static_cast<std::int64_t>(positive(llama_model_n_layer(model))) *
               positive(llama_model_n_head_kv(model)) * (key + value) * kHalf};
}

Result<> check_model_file(const std::string& path) {
  TRY_VOID(check_part(path));
  const std::optional<Part> part = part_of(path);
  if (!part) return {};
  if (part->number != 1) {
    return fail(Code::Invalid, fmt::format("{} is part {} of a split model; name its first part",
                                           path, part->number));
  }
  for (std::uint32_t i = 2; i <= part->count; ++i) {
    TRY_VOID(check_part(fmt::format("{}-{:05}-of-{:05}.gguf", part->prefix, i, part->count)));
  }
  return {};
}

Error load_error(const std::string& path, std::string_view reason) {
  const auto says = [&](std::string_view part) {
    return reason.find(part) != std::string_view::npos;
  };
  constexpr std::string_view kPrefix = "error loading model: ";
  std::string_view why = reason;
  if (why.substr(0, kPrefix.size()) == kPrefix) why.remove_prefix(kPrefix.size());
  if (why.empty()) why = "llama.cpp gave no reason";
  if (says("unknown model architecture")) {
    return {Code::Unsupported,
            fmt::format("{}: {}; this release of llama.cpp cannot run it", path, why)};
  }
  if (says("unknown pre-tokenizer") || says("not supported") || says("CLIP cannot")) {
    return {Code::Unsupported, fmt::format("{}: {}", path, why)};
  }
  if (says("allocate")) {
    return {Code::TooLarge, fmt::format("{} does not fit in memory: {}", path, why)};
  }
  return {Code::Corrupt, fmt::format("{} cannot be loaded: {}", path, why)};
}

}  // namespace lares::llm
