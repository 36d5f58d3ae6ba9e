#include "engine/diffusion/vae.h"

#include <array>

#include <ggml.h>

namespace lares::diffusion {
namespace {

constexpr float kEpsilon = 1e-6F;  // Of every norm in an autoencoder; fixed in diffusers.

}  // namespace

void Vae::declare_middle(const Scope& at, Half& half) const {
  const std::int64_t width = config_.channels.back();
  for (std::size_t j = 0; j < 2; ++j) {
    half.middle.push_back(declare_resnet(at["resnets"][j], width, width, 0));
  }
  half.attention = declare_map_attention(at["attentions"][0], width);
}

void Vae::declare_encoder(const Scope& root) {
  const Scope at = root["encoder"];
  std::int64_t width = config_.channels.front();
  encoder_.in = declare_conv(at["conv_in"], config_.in_channels, width, 3);
  for (std::size_t i = 0; i < config_.channels.size(); ++i) {
    const Scope down = at["down_blocks"][i];
    Block block;
    for (std::size_t j = 0; j < config_.layers; ++j) {
      block.resnets.push_back(declare_resnet(down["resnets"][j], width, config_.channels[i], 0));
      width = config_.channels[i];
    }
    if (i + 1 < config_.channels.size()) {
      block.resample = declare_conv(down["downsamplers"][0]["conv"], width, width, 3);
    }
    encoder_.blocks.push_back(std::move(block));
  }
  declare_middle(at["mid_block"], encoder_);
  const std::int64_t moments = 2 * std::int64_t{config_.latent_channels};
  encoder_.norm_out = declare_norm(at["conv_norm_out"], width);
  encoder_.out = declare_conv(at["conv_out"], width, moments, 3);
  encoder_.quant = declare_conv(root["quant_conv"], moments, moments, 1);
}

void Vae::declare_decoder(const Scope& root) {
  const Scope at = root["decoder"];
  const std::int64_t latent = config_.latent_channels;
  std::int64_t width = config_.channels.back();
  decoder_.quant = declare_conv(root["post_quant_conv"], latent, latent, 1);
  decoder_.in = declare_conv(at["conv_in"], latent, width, 3);
  declare_middle(at["mid_block"], decoder_);
  for (std::size_t i = 0; i < config_.channels.size(); ++i) {
    const std::int64_t out = config_.channels[config_.channels.size() - 1 - i];
    const Scope up = at["up_blocks"][i];
    Block block;
    for (std::size_t j = 0; j <= config_.layers; ++j) {
      block.resnets.push_back(declare_resnet(up["resnets"][j], width, out, 0));
      width = out;
    }
    if (i + 1 < config_.channels.size()) {
      block.resample = declare_conv(up["upsamplers"][0]["conv"], width, width, 3);
    }
    decoder_.blocks.push_back(std::move(block));
  }
  decoder_.norm_out = declare_norm(at["conv_norm_out"], width);
  decoder_.out = declare_conv(at["conv_out"], width, config_.out_channels, 3);
}

Result<Vae> Vae::load(const VaeConfig& config, const std::string& path, Precision precision,
                      const Device& device) {
  Vae out;
  out.config_ = config;
  out.table_ = std::make_unique<WeightTable>(precision);
  const Scope root(*out.table_);
  out.declare_encoder(root);
  out.declare_decoder(root);
  TRY_VOID(out.table_->load(path, device.backend()));
  return out;
}

ggml_tensor* Vae::middle(const Builder& b, const Half& half, ggml_tensor* x) const {
  x = apply(b, half.middle[0], x, nullptr, config_.groups, kEpsilon);
  x = apply(b, half.attention, x, config_.groups, kEpsilon);
  return apply(b, half.middle[1], x, nullptr, config_.groups, kEpsilon);
}

ggml_tensor* Vae::build_decoder(const Builder& b, std::int64_t width, std::int64_t height,
                                ggml_tensor*& input) const {
  input = b.input(GGML_TYPE_F32,
                  std::array<std::int64_t, 4>{width, height, config_.latent_channels, 1});
  ggml_tensor* x = apply(b, decoder_.in, apply(b, decoder_.quant, input));
  x = middle(b, decoder_, x);
  for (const Block& block : decoder_.blocks) {
    for (const Resnet& resnet : block.resnets) {
      x = apply(b, resnet, x, nullptr, config_.groups, kEpsilon);
    }
    if (block.resample) x = upsample(b, *block.resample, x);
  }
  return apply(b, decoder_.out,
               group_norm(b, decoder_.norm_out, x, config_.groups, kEpsilon, Then::Silu));
}

ggml_tensor* Vae::build_encoder(const Builder& b, std::int64_t width, std::int64_t height,
                                ggml_tensor*& input) const {
  input =
      b.input(GGML_TYPE_F32, std::array<std::int64_t, 4>{width, height, config_.in_channels, 1});
  ggml_tensor* x = apply(b, encoder_.in, input);
  for (const Block& block : encoder_.blocks) {
    for (const Resnet& resnet : block.resnets) {
      x = apply(b, resnet, x, nullptr, config_.groups, kEpsilon);
    }
    if (block.resample) x = downsample(b, *block.resample, x, false);
  }
  x = middle(b, encoder_, x);
  x = group_norm(b, encoder_.norm_out, x, config_.groups, kEpsilon, Then::Silu);
  return apply(b, encoder_.quant, apply(b, encoder_.out, x));
}

}  // namespace lares::diffusion
