#include "app/image_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "app/folder_walk.h"
#include "core/json.h"

namespace lares::app {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthMax = 3;
constexpr std::uintmax_t kConfigBytesMax = 1U << 20U;
constexpr std::int64_t kMost = 1 << 20;

Result<json::Value> read_config(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return fail(Code::NotFound, fmt::format("{}: {}", path, error.message()));
  if (size > kConfigBytesMax) return fail(Code::Corrupt, fmt::format("{} is too large", path));
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto value = json::parse(text);
  if (!value) return fail(Code::Corrupt, fmt::format("{}: {}", path, value.error().message));
  return std::move(*value);
}

// The weights below `folder`: their sizes, and a digest of sizes and of both ends of each file.
struct Weights {
  std::int64_t bytes = 0;
  std::string digest;
};

Weights weights_of(const fs::path& folder) {
  constexpr std::streamoff kEnd = 65536;
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  Weights weights;
  std::string all;
  for (const fs::path& file : files) {
    const auto size = static_cast<std::int64_t>(fs::file_size(file, error));
    if (error) continue;
    weights.bytes += size;
    std::ifstream in(file, std::ios::binary);
    std::string ends(static_cast<std::size_t>(std::min<std::int64_t>(size, kEnd)), '\0');
    in.read(ends.data(), static_cast<std::streamsize>(ends.size()));
    all += fmt::format("{}\n", size) + ends;
    in.seekg(std::max<std::streamoff>(size - kEnd, 0));
    in.read(ends.data(), static_cast<std::streamsize>(ends.size()));
    all += ends;
  }
  weights.digest = sketch::digest_of(all);
  return weights;
}

class Reader {
 public:
  explicit Reader(const std::string& folder) : folder_(folder) {}

  Result<sketch::Model> read() {
    const json::Value index = TRY(read_config(file("model_index.json")));
    TRY_VOID(known(index, "_class_name",
                   {"StableDiffusionPipeline", "LatentConsistencyModelPipeline",
                    "StableDiffusionImg2ImgPipeline"}));
    model_.name = folder_.filename().string();
    const std::uint32_t factor = TRY(autoencoder());
    TRY_VOID(unet(factor));
    TRY_VOID(text_encoder());
    TRY_VOID(scheduler());
    model_.dtypes = {"f16", "f32", "bf16", "q8_0"};
    const Weights unet = weights_of(folder_ / "unet");
    const Weights vae = weights_of(folder_ / "vae");
    model_.weights = Bytes{unet.bytes + vae.bytes + encoder_bytes_};
    model_.digest = sketch::digest_of(unet.digest + vae.digest + model_.encoder);
    return std::move(model_);
  }

 private:
  [[nodiscard]] std::string file(std::string_view name) const { return (folder_ / name).string(); }

  Result<> known(const json::Value& config, std::string_view key,
                 std::initializer_list<std::string_view> names) {
    const json::Value* value = config.find(key);
    const std::string* name = value == nullptr ? nullptr : value->as<std::string>();
    if (name == nullptr) return {};  // Older folders do not say.
    if (std::ranges::find(names, *name) != names.end()) return {};
    return fail(Code::Unsupported,
                fmt::format("{} is a {}, which is not known here", folder_.string(), *name));
  }

  // Doublings of the side between the first and the last of a network's levels.
  static std::uint32_t halvings(const json::Fields& config) {
    const json::Array* blocks = config.array("block_out_channels");
    const std::size_t levels =
        blocks == nullptr ? 4 : std::clamp<std::size_t>(blocks->size(), 1, 8);
    return static_cast<std::uint32_t>(levels - 1);
  }

  Result<> sound(const json::Problem& problem, std::string_view where) const {
    if (!problem) return {};
    return fail(Code::Corrupt, fmt::format("{}: {}", file(where), problem.message));
  }

  static Result<sketch::Decimal> decimal(std::optional<double> number, double usual) {
    const auto rounded = sketch::Decimal::parse(fmt::format("{:.6f}", number.value_or(usual)));
    return rounded ? *rounded : sketch::Decimal{};
  }

  Result<std::uint32_t> autoencoder() {
    constexpr std::string_view kFile = "vae/config.json";
    const json::Value value = TRY(read_config(file(kFile)));
    TRY_VOID(known(value, "_class_name", {"AutoencoderKL"}));
    json::Problem problem;
    const json::Fields config(value, "", problem);
    sketch::Space& space = model_.space;
    space.factor = 1U << halvings(config);
    space.channels =
        static_cast<std::uint32_t>(config.integer("latent_channels", 1, kMost).value_or(4));
    space.scale = TRY(decimal(config.number("scaling_factor", 0, 1000), 0.18215));
    space.shift = TRY(decimal(config.number("shift_factor", 0, 1000), 0));
    space.family = fmt::format("KL-f{}", space.factor);
    space.name = sketch::space_name(space);
    TRY_VOID(sound(problem, kFile));
    return space.factor;
  }

  Result<> unet(std::uint32_t factor) {
    constexpr std::string_view kFile = "unet/config.json";
    const json::Value value = TRY(read_config(file(kFile)));
    TRY_VOID(known(value, "_class_name", {"UNet2DConditionModel"}));
    json::Problem problem;
    const json::Fields config(value, "", problem);
    model_.multiple = factor << halvings(config);
    const auto cells = config.integer("sample_size", 1, 4096).value_or(64);
    const auto side = static_cast<std::uint32_t>(cells) * factor;
    model_.usual = {side, side};
    model_.takes_width =
        static_cast<std::uint32_t>(config.integer("cross_attention_dim", 1, kMost).value_or(768));
    return sound(problem, kFile);
  }

  Result<> text_encoder() {
    constexpr std::string_view kFile = "text_encoder/config.json";
    const json::Value value = TRY(read_config(file(kFile)));
    json::Problem problem;
    const json::Fields config(value, "", problem);
    model_.cond_width =
        static_cast<std::uint32_t>(config.integer("hidden_size", 1, kMost).value_or(768));
    model_.cond_tokens = static_cast<std::uint32_t>(
        config.integer("max_position_embeddings", 1, kMost).value_or(77));
    // Models that were tuned from the same one often share its encoder, to the byte.
    const Weights weights = weights_of(folder_ / "text_encoder");
    encoder_bytes_ = weights.bytes;
    model_.encoder = "clip-" + sketch::digest_of(weights.digest).substr(0, 4);
    return sound(problem, kFile);
  }

  Result<> scheduler() {
    const auto value = read_config(file("scheduler/scheduler_config.json"));
    const json::Value* named = value ? value->find("_class_name") : nullptr;
    const std::string* name = named == nullptr ? nullptr : named->as<std::string>();
    const std::string sampler = name == nullptr ? "" : *name;
    if (sampler == "EulerDiscreteScheduler") model_.sampler = "euler";
    if (sampler == "EulerAncestralDiscreteScheduler") model_.sampler = "euler_a";
    if (sampler == "LCMScheduler") model_.sampler = "lcm";
    // No configuration says that a model was distilled to few steps without guidance.
    if (model_.sampler == "lcm" || model_.name.find("turbo") != std::string::npos) {
      model_.steps = 4;
      model_.cfg = sketch::Decimal::whole(1);
    }
    model_.steps_draft = model_.steps / 2;
    model_.steps_fine = model_.steps * 2;
    return {};
  }

  fs::path folder_;
  sketch::Model model_;
  std::int64_t encoder_bytes_ = 0;
};

}  // namespace

std::vector<std::string> find_image_models(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  if (fs::exists(fs::path(folder) / "model_index.json", error)) found.push_back(folder);
  walk_folder(folder, kDepthMax, [&](const fs::path& path, int depth) {
    if (path.filename() == "model_index.json" && depth > 0)
      found.push_back(path.parent_path().string());
  });
  std::ranges::sort(found);
  return found;
}

Result<sketch::Model> read_image_model(const std::string& folder) {
  return Reader(fs::path(folder).lexically_normal()).read();
}

Result<engine::ModelInfo> probe_image_model(const std::string& folder) {
  const sketch::Model model = TRY(read_image_model(folder));
  engine::ModelInfo info;
  info.architecture = "diffusion";
  info.description =
      fmt::format("{} {}x{}", model.space.family, model.usual.width, model.usual.height);
  info.weights = model.weights;
  info.can.generates = false;
  info.can.pictures = true;
  info.picture = {.digest = model.digest,
                  .space = model.space.name,
                  .family = model.space.family,
                  .channels = model.space.channels,
                  .factor = model.space.factor,
                  .scale_millionths = model.space.scale.in_millionths().value_or(0),
                  .shift_millionths = model.space.shift.in_millionths().value_or(0),
                  .multiple = model.multiple,
                  .usual = {model.usual.width, model.usual.height},
                  .encoder = model.encoder,
                  .prompt_tokens = model.cond_tokens,
                  .prompt_width = model.cond_width,
                  .takes_width = model.takes_width,
                  .sampler = model.sampler,
                  .steps = model.steps,
                  .steps_draft = model.steps_draft,
                  .steps_fine = model.steps_fine,
                  .cfg_millionths = model.cfg.in_millionths().value_or(1000000)};
  return info;
}

}  // namespace lares::app
