// What a model folder's JSON files say: the diffusers layout, read into plain values.
//
// A folder holds model_index.json, and a folder for each part with its config.json (or
// scheduler_config.json) and its safetensors file. Every size, name and default comes from there;
// defaults are diffusers' own (configuration classes of release 0.21). What a config asks for and
// this engine lacks is an error that names the file and the key; a key that is not known is an
// error too, unless it is null, false, 0 or empty.
//
// Pure but for reading the files; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace lares::diffusion {

// Most of anything that a config can ask for; beyond it, it is a mistake or an attack.
inline constexpr std::int64_t kWidthMax = 16384;
inline constexpr std::int64_t kBlocksMax = 16;

enum class TextActivation : std::uint8_t { QuickGelu, Gelu };

// CLIPTextModel.
struct TextConfig {
  std::uint32_t vocabulary = 49408;
  std::uint32_t width = 512;
  std::uint32_t inner = 2048;
  std::uint32_t layers = 12;
  std::uint32_t heads = 8;
  std::uint32_t positions = 77;
  float epsilon = 1e-5F;
  TextActivation activation = TextActivation::QuickGelu;
};

// UNet2DConditionModel.
struct UnetConfig {
  std::uint32_t in_channels = 4;
  std::uint32_t out_channels = 4;
  std::uint32_t sample_size =
      64;  // Latent pixels; what pictures have unless another size is asked.
  std::vector<std::uint32_t> channels;  // Of each block, from the top down.
  std::vector<std::uint32_t> layers;    // Resnets of each down block; up blocks have one more.
  std::vector<std::uint32_t> heads;     // Attention heads of each block.
  std::vector<bool> down_attention;     // Which down blocks have cross attention.
  std::vector<bool> up_attention;
  std::uint32_t groups = 32;
  std::uint32_t context = 1280;  // Width of the conditioning.
  float epsilon = 1e-5F;
  bool flip_sin_to_cos = true;  // Cosines first.
  float frequency_shift = 0;
  bool linear_projection = false;  // proj_in and proj_out are matrices, not 1x1 kernels.
};

// AutoencoderKL.
struct VaeConfig {
  std::uint32_t in_channels = 3;
  std::uint32_t out_channels = 3;
  std::uint32_t latent_channels = 4;
  std::vector<std::uint32_t> channels;
  std::uint32_t layers = 1;
  std::uint32_t groups = 32;
  float scaling_factor = 0.18215F;
  // Pixels per latent pixel, each way.
  [[nodiscard]] std::uint32_t factor() const { return 1U << (channels.size() - 1); }
};

enum class BetaSchedule : std::uint8_t { Linear, ScaledLinear };
enum class Prediction : std::uint8_t { Epsilon, V };
enum class Spacing : std::uint8_t { Leading, Linspace, Trailing };
enum class SamplerKind : std::uint8_t { Ddim, Euler, EulerAncestral, Lcm };

// A scheduler_config.json.
struct ScheduleConfig {
  SamplerKind sampler =
      SamplerKind::Ddim;  // What the folder was made for; jobs may choose another.
  std::uint32_t train_steps = 1000;
  double beta_start = 0.0001;
  double beta_end = 0.02;
  BetaSchedule beta_schedule = BetaSchedule::Linear;
  Prediction prediction = Prediction::Epsilon;
  Spacing spacing = Spacing::Leading;
  std::uint32_t steps_offset = 0;
  bool set_alpha_to_one = true;
  std::uint32_t original_steps = 50;  // LCM: steps of the model it was distilled from.
  double timestep_scaling = 10;       // LCM.
};

// The tokenizer's files are read by Tokenizer; this is what its config says beside them.
struct TokenizerConfig {
  std::string begin = "<|startoftext|>";
  std::string end = "<|endoftext|>";
  std::string pad = "<|endoftext|>";
  std::uint32_t length = 77;
};

// rgb = weight^T z + bias, for previews (vae/latent_rgb.json, written by the starter model's
// maker).
struct LatentRgb {
  std::vector<std::array<float, 3>> weight;  // A row for each latent channel.
  std::array<float, 3> bias{};
};

struct FolderConfig {
  std::string folder;
  TextConfig text;
  UnetConfig unet;
  VaeConfig vae;
  ScheduleConfig schedule;
  TokenizerConfig tokenizer;
  std::optional<LatentRgb> latent_rgb;
  std::string text_weights, unet_weights, vae_weights;  // Paths.
};

// Errors: NotFound, Io, Invalid (no JSON, a wrong type or range), Unsupported (named).
Result<FolderConfig> read_folder(const std::string& folder);

}  // namespace lares::diffusion
