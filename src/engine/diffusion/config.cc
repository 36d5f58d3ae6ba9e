#include "engine/diffusion/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "engine/diffusion/config_file.h"

namespace lares::diffusion {
namespace {

Result<TextConfig> read_text_config(const std::string& path) {
  ConfigFile file = TRY(ConfigFile::open(path));
  TextConfig c;
  c.vocabulary = file.count("vocab_size", 49408, 1, 1 << 20);
  c.width = file.count("hidden_size", 512, 1, kWidthMax);
  c.inner = file.count("intermediate_size", 2048, 1, 4 * kWidthMax);
  c.layers = file.count("num_hidden_layers", 12, 1, 256);
  c.heads = file.count("num_attention_heads", 8, 1, 256);
  c.positions = file.count("max_position_embeddings", 77, 2, 4096);
  c.epsilon = static_cast<float>(file.number("layer_norm_eps", 1e-5, 0, 1));
  c.activation =
      static_cast<TextActivation>(file.choice("hidden_act", "quick_gelu", {"quick_gelu", "gelu"}));
  file.only("model_type", {R"("clip_text_model")"});
  file.ignore({"architectures", "attention_dropout", "bos_token_id", "eos_token_id", "pad_token_id",
               "dropout", "initializer_factor", "initializer_range", "projection_dim",
               "torch_dtype", "transformers_version"});
  if (c.width % c.heads != 0) {
    file.refuse(Code::Invalid, "hidden_size", "must be a multiple of `num_attention_heads`");
  }
  TRY_VOID(file.finish());
  return c;
}

// Block names -> which have attention.
std::vector<bool> attention_of(ConfigFile& file, std::string_view key, std::string_view plain,
                               std::string_view attending, std::size_t n) {
  const std::vector<std::string> names = file.texts(key);
  std::vector<bool> out;
  for (const std::string& name : names) {
    if (name != plain && name != attending) {
      file.refuse(Code::Unsupported, key,
                  fmt::format("has \"{}\", which this engine lacks; it has {}, {}", name, plain,
                              attending));
    }
    out.push_back(name == attending);
  }
  if (out.size() != n) {
    file.refuse(Code::Invalid, key, fmt::format("must have {} entries, as block_out_channels", n));
  }
  out.resize(n);
  return out;
}

void check_groups(ConfigFile& file, const std::vector<std::uint32_t>& channels,
                  std::uint32_t groups) {
  for (const std::uint32_t width : channels) {
    if (width % groups == 0) continue;
    file.refuse(Code::Invalid, "block_out_channels", "must be multiples of `norm_num_groups`");
  }
  if (channels.size() > static_cast<std::size_t>(kBlocksMax)) {
    file.refuse(Code::TooLarge, "block_out_channels",
                fmt::format("has more than {} entries", kBlocksMax));
  }
}

// Keys of later diffusers releases, and parts that other families use: nothing but their defaults.
void refuse_other_unets(ConfigFile& file) {
  for (const std::string_view key :
       {"addition_embed_type", "class_embed_type", "encoder_hid_dim", "encoder_hid_dim_type",
        "num_class_embeds", "time_cond_proj_dim", "time_embedding_act_fn", "time_embedding_dim",
        "timestep_post_act", "addition_time_embed_dim", "projection_class_embeddings_input_dim",
        "conv_in_condition", "cross_attention_norm", "mid_block_only_cross_attention",
        "reverse_transformer_layers_per_block", "attention_type"}) {
    file.only(key, {"null", "false", R"("default")"});
  }
  file.only("act_fn", {R"("silu")", R"("swish")"});
  file.only("center_input_sample", {"false"});
  file.only("downsample_padding", {"1"});
  file.only("mid_block_scale_factor", {"1"});
  file.only("mid_block_type", {R"("UNetMidBlock2DCrossAttn")"});
  file.only("only_cross_attention", {"false"});
  file.only("dual_cross_attention", {"false"});
  file.only("resnet_time_scale_shift", {R"("default")"});
  file.only("resnet_skip_time_act", {"false"});
  file.only("resnet_out_scale_factor", {"1"});
  file.only("class_embeddings_concat", {"false"});
  file.only("time_embedding_type", {R"("positional")"});
  file.only("conv_in_kernel", {"3"});
  file.only("conv_out_kernel", {"3"});
  file.only("transformer_layers_per_block", {"1"});
  // Computed in F32 here in any case.
  file.ignore({"upcast_attention", "addition_embed_type_num_heads", "dropout"});
}

Result<UnetConfig> read_unet_config(const std::string& path) {
  ConfigFile file = TRY(ConfigFile::open(path));
  UnetConfig c;
  file.only("_class_name", {R"("UNet2DConditionModel")"});
  c.in_channels = file.count("in_channels", 4, 1, 64);
  c.out_channels = file.count("out_channels", 4, 1, 64);
  c.sample_size = file.count("sample_size", 64, 1, 4096);
  c.channels = file.counts("block_out_channels", kWidthMax);
  const std::size_t n = c.channels.size();
  c.layers = file.count_or_counts("layers_per_block", 2, 16, n);
  // In this family the key holds the number of heads, whatever it is called; later releases say
  // num_attention_heads (diffusers PR 3797 explains the history).
  const char* heads =
      file.find("num_attention_heads") != nullptr ? "num_attention_heads" : "attention_head_dim";
  c.heads = file.count_or_counts(heads, 8, 1024, n);
  file.ignore({"attention_head_dim"});
  c.groups = file.count("norm_num_groups", 32, 1, 1024);
  c.context = file.count("cross_attention_dim", 1280, 1, kWidthMax);
  c.epsilon = static_cast<float>(file.number("norm_eps", 1e-5, 0, 1));
  c.flip_sin_to_cos = file.flag("flip_sin_to_cos", true);
  c.frequency_shift = static_cast<float>(file.number("freq_shift", 0, 0, 1));
  c.linear_projection = file.flag("use_linear_projection", false);
  c.down_attention =
      attention_of(file, "down_block_types", "DownBlock2D", "CrossAttnDownBlock2D", n);
  c.up_attention = attention_of(file, "up_block_types", "UpBlock2D", "CrossAttnUpBlock2D", n);
  check_groups(file, c.channels, c.groups);
  for (std::size_t i = 0; i < n && i < c.heads.size(); ++i) {
    if (c.channels[i] % c.heads[i] != 0) {
      file.refuse(Code::Invalid, "attention_head_dim", "must divide `block_out_channels`");
    }
  }
  if (!c.channels.empty() && c.channels[0] % 2 != 0) {
    file.refuse(Code::Invalid, "block_out_channels", "must begin with an even number");
  }
  refuse_other_unets(file);
  TRY_VOID(file.finish());
  return c;
}

Result<VaeConfig> read_vae_config(const std::string& path) {
  ConfigFile file = TRY(ConfigFile::open(path));
  VaeConfig c;
  file.only("_class_name", {R"("AutoencoderKL")"});
  c.in_channels = file.count("in_channels", 3, 3, 3);
  c.out_channels = file.count("out_channels", 3, 3, 3);
  c.latent_channels = file.count("latent_channels", 4, 1, 64);
  c.channels = file.counts("block_out_channels", kWidthMax);
  c.layers = file.count("layers_per_block", 1, 1, 16);
  c.groups = file.count("norm_num_groups", 32, 1, 1024);
  c.scaling_factor = static_cast<float>(file.number("scaling_factor", 0.18215, 1e-6, 1e6));
  attention_of(file, "down_block_types", "DownEncoderBlock2D", "DownEncoderBlock2D",
               c.channels.size());
  attention_of(file, "up_block_types", "UpDecoderBlock2D", "UpDecoderBlock2D", c.channels.size());
  check_groups(file, c.channels, c.groups);
  file.only("act_fn", {R"("silu")"});
  file.only("shift_factor", {"null", "0"});
  file.only("mid_block_add_attention", {"true"});
  file.only("use_quant_conv", {"true"});
  file.only("use_post_quant_conv", {"true"});
  file.ignore({"sample_size", "force_upcast"});
  TRY_VOID(file.finish());
  return c;
}

Result<ScheduleConfig> read_schedule_config(const std::string& path) {
  ConfigFile file = TRY(ConfigFile::open(path));
  ScheduleConfig c;
  // PNDM has no sampler here, but its schedule is the one that DDIM uses: SD 1.5 ships with it.
  constexpr SamplerKind kSamplers[] = {SamplerKind::Ddim, SamplerKind::Euler,
                                       SamplerKind::EulerAncestral, SamplerKind::Lcm,
                                       SamplerKind::Ddim};
  c.sampler =
      kSamplers[file.choice("_class_name", "DDIMScheduler",
                            {"DDIMScheduler", "EulerDiscreteScheduler",
                             "EulerAncestralDiscreteScheduler", "LCMScheduler", "PNDMScheduler"})];
  c.train_steps = file.count("num_train_timesteps", 1000, 1, 100'000);
  c.beta_start = file.number("beta_start", 0.0001, 1e-9, 0.999);
  c.beta_end = file.number("beta_end", 0.02, 1e-9, 0.999);
  c.beta_schedule = static_cast<BetaSchedule>(
      file.choice("beta_schedule", "linear", {"linear", "scaled_linear"}));
  c.prediction = static_cast<Prediction>(
      file.choice("prediction_type", "epsilon", {"epsilon", "v_prediction"}));
  const bool euler = c.sampler == SamplerKind::Euler || c.sampler == SamplerKind::EulerAncestral;
  c.spacing = static_cast<Spacing>(file.choice("timestep_spacing", euler ? "linspace" : "leading",
                                               {"leading", "linspace", "trailing"}));
  c.steps_offset = file.count("steps_offset", 0, 0, c.train_steps - 1);
  c.set_alpha_to_one = file.flag("set_alpha_to_one", true);
  c.original_steps = file.count("original_inference_steps", 50, 1, c.train_steps);
  c.timestep_scaling = file.number("timestep_scaling", 10, 1e-3, 1e6);
  file.only("trained_betas", {"null"});
  file.only("clip_sample", {"false"});
  file.only("thresholding", {"false"});
  file.only("rescale_betas_zero_snr", {"false"});
  file.only("use_karras_sigmas", {"false"});
  file.only("use_exponential_sigmas", {"false"});
  file.only("use_beta_sigmas", {"false"});
  file.only("interpolation_type", {R"("linear")"});
  file.only("timestep_type", {R"("discrete")"});
  file.only("final_sigmas_type", {R"("zero")"});
  file.only("sigma_min", {"null"});
  file.only("sigma_max", {"null"});
  // Of thresholding and PNDM's warm-up, neither of which is used.
  file.ignore(
      {"skip_prk_steps", "sample_max_value", "dynamic_thresholding_ratio", "clip_sample_range"});
  TRY_VOID(file.finish());
  return c;
}

// A token is written as a string, or as an object with its `content`.
std::string token_text(ConfigFile& file, std::string_view key, std::string fallback) {
  const json::Value* value = file.find(key);
  if (value == nullptr) return fallback;
  const json::Value* content = value->find("content");
  const auto* text = (content != nullptr ? content : value)->as<std::string>();
  if (text != nullptr) return *text;
  file.refuse(Code::Invalid, key, "must be a string, or an object with `content`");
  return fallback;
}

Result<TokenizerConfig> read_tokenizer_config(const std::string& path, std::uint32_t positions) {
  ConfigFile file = TRY(ConfigFile::open(path));
  TokenizerConfig c;
  c.begin = token_text(file, "bos_token", c.begin);
  c.end = token_text(file, "eos_token", c.end);
  c.pad = token_text(file, "pad_token", c.end);
  // Some files hold a huge number here; the text encoder sees no further than its positions.
  const json::Value* length = file.find("model_max_length");
  const auto number = length == nullptr ? std::nullopt : length->number();
  c.length = number && *number >= 2 && *number < positions ? static_cast<std::uint32_t>(*number)
                                                           : positions;
  file.only("tokenizer_class", {R"("CLIPTokenizer")"});
  file.only("do_lower_case", {"true"});
  file.only("add_prefix_space", {"false"});
  file.ignore({"errors", "unk_token", "name_or_path", "special_tokens_map_file",
               "clean_up_tokenization_spaces", "added_tokens_decoder"});
  TRY_VOID(file.finish());
  return c;
}

Result<LatentRgb> read_latent_rgb(const std::string& path, std::uint32_t channels) {
  ConfigFile file = TRY(ConfigFile::open(path));
  LatentRgb out;
  const auto triple = [](const json::Value& value) -> std::optional<std::array<float, 3>> {
    const auto* array = value.as<json::Array>();
    if (array == nullptr || array->size() != 3) return std::nullopt;
    std::array<float, 3> rgb{};
    for (std::size_t i = 0; i < 3; ++i) {
      const auto number = (*array)[i].number();
      if (!number) return std::nullopt;
      rgb[i] = static_cast<float>(*number);
    }
    return rgb;
  };
  const json::Value* weight = file.find("weight");
  const auto* rows = weight == nullptr ? nullptr : weight->as<json::Array>();
  for (std::size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
    if (const auto row = triple((*rows)[i])) out.weight.push_back(*row);
  }
  const json::Value* bias = file.find("bias");
  const auto last = bias == nullptr ? std::nullopt : triple(*bias);
  if (out.weight.size() != channels || !last) {
    file.refuse(Code::Invalid, "weight",
                fmt::format("must have {} rows of three numbers, and `bias`", channels));
  } else {
    out.bias = *last;
  }
  file.ignore({"comment", "rms_error"});
  TRY_VOID(file.finish());
  return out;
}

// The first of the files that is there.
Result<std::string> weights_of(const std::string& folder, std::span<const std::string_view> names) {
  std::error_code ignored;
  for (const std::string_view name : names) {
    std::string path = fmt::format("{}/{}", folder, name);
    if (std::filesystem::exists(path, ignored)) return path;
    if (std::filesystem::exists(path + ".index.json", ignored)) {
      return fail(Code::Unsupported, path + ".index.json: weights in several files");
    }
  }
  return fail(Code::NotFound, fmt::format("{}: no {} there", folder, names[0]));
}

// Which class each part has.
Result<> check_index(const std::string& path) {
  ConfigFile file = TRY(ConfigFile::open(path));
  file.choice("_class_name", "",
              {"StableDiffusionPipeline", "StableDiffusionImg2ImgPipeline",
               "LatentConsistencyModelPipeline"});
  struct Part {
    std::string_view key, one;
  };
  for (const Part part : {Part{"text_encoder", "CLIPTextModel"}, Part{"tokenizer", "CLIPTokenizer"},
                          Part{"unet", "UNet2DConditionModel"}, Part{"vae", "AutoencoderKL"}}) {
    const json::Value* value = file.find(part.key);
    const auto* pair = value == nullptr ? nullptr : value->as<json::Array>();
    const auto* name =
        pair == nullptr || pair->size() != 2 ? nullptr : (*pair)[1].as<std::string>();
    if (name == nullptr) {
      file.refuse(Code::Invalid, part.key, "must be a library and a class");
    } else if (*name != part.one) {
      file.refuse(Code::Unsupported, part.key,
                  fmt::format("is {}, which this engine lacks; it has {}", *name, part.one));
    }
  }
  // The scheduler's own file says which it is. What checks or looks at pictures is not run here.
  file.ignore({"scheduler", "feature_extractor", "safety_checker", "requires_safety_checker",
               "image_encoder"});
  return file.finish();
}

}  // namespace

Result<FolderConfig> read_folder(const std::string& folder) {
  FolderConfig out;
  out.folder = folder;
  TRY_VOID(check_index(folder + "/model_index.json"));
  out.text = TRY(read_text_config(folder + "/text_encoder/config.json"));
  out.unet = TRY(read_unet_config(folder + "/unet/config.json"));
  out.vae = TRY(read_vae_config(folder + "/vae/config.json"));
  out.schedule = TRY(read_schedule_config(folder + "/scheduler/scheduler_config.json"));
  out.tokenizer =
      TRY(read_tokenizer_config(folder + "/tokenizer/tokenizer_config.json", out.text.positions));
  const std::string latent_rgb = folder + "/vae/latent_rgb.json";
  if (std::error_code ignored; std::filesystem::exists(latent_rgb, ignored)) {
    out.latent_rgb = TRY(read_latent_rgb(latent_rgb, out.vae.latent_channels));
  }
  if (out.unet.context != out.text.width) {
    return fail(Code::Invalid, fmt::format("{}: unet/config.json takes conditioning of width {}, "
                                           "text_encoder/config.json makes {}",
                                           folder, out.unet.context, out.text.width));
  }
  if (out.unet.in_channels != out.vae.latent_channels ||
      out.unet.out_channels != out.vae.latent_channels) {
    return fail(
        Code::Unsupported,
        fmt::format("{}: unet/config.json: `in_channels` {} and `out_channels` {}, where the "
                    "vae's latents have {}: only plain text-to-image models are known",
                    folder, out.unet.in_channels, out.unet.out_channels, out.vae.latent_channels));
  }
  constexpr std::string_view kText[] = {"model.safetensors", "model.fp16.safetensors"};
  constexpr std::string_view kOther[] = {"diffusion_pytorch_model.safetensors",
                                         "diffusion_pytorch_model.fp16.safetensors"};
  out.text_weights = TRY(weights_of(folder + "/text_encoder", kText));
  out.unet_weights = TRY(weights_of(folder + "/unet", kOther));
  out.vae_weights = TRY(weights_of(folder + "/vae", kOther));
  return out;
}

}  // namespace lares::diffusion
