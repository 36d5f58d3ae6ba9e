#include "engine/diffusion/unet.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <ggml.h>

namespace lares::diffusion {

void Unet::declare_down(const Scope& root, std::int64_t time_width) {
  const auto& c = config_;
  std::int64_t width = c.channels.front();
  for (std::size_t i = 0; i < c.channels.size(); ++i) {
    const Scope at = root["down_blocks"][i];
    const std::int64_t out = c.channels[i];
    Block block;
    for (std::size_t j = 0; j < c.layers[i]; ++j) {
      block.resnets.push_back(declare_resnet(at["resnets"][j], width, out, time_width));
      width = out;
      if (c.down_attention[i]) {
        block.transformers.push_back(
            declare_transformer(at["attentions"][j], out, c.context, c.heads[i]));
      }
    }
    if (i + 1 < c.channels.size()) {
      block.resample = declare_conv(at["downsamplers"][0]["conv"], out, out, 3);
    }
    down_.push_back(std::move(block));
  }
}

// Each resnet takes in what came from below and, beside it, what the way down left at this size:
// one map for each resnet of the down block, and the one with which the block began.
void Unet::declare_up(const Scope& root, std::int64_t time_width) {
  const auto& c = config_;
  const std::size_t n = c.channels.size();
  std::int64_t width = c.channels.back();
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t level = n - 1 - i;  // Of the down block at this size.
    const Scope at = root["up_blocks"][i];
    const std::int64_t out = c.channels[level];
    const std::int64_t before = c.channels[level == 0 ? 0 : level - 1];
    Block block;
    for (std::size_t j = 0; j <= c.layers[level]; ++j) {
      const std::int64_t beside = j == c.layers[level] ? before : out;
      block.resnets.push_back(declare_resnet(at["resnets"][j], width + beside, out, time_width));
      width = out;
      if (c.up_attention[i]) {
        block.transformers.push_back(
            declare_transformer(at["attentions"][j], out, c.context, c.heads[level]));
      }
    }
    if (level > 0) block.resample = declare_conv(at["upsamplers"][0]["conv"], out, out, 3);
    up_.push_back(std::move(block));
  }
}

Result<Unet> Unet::load(const UnetConfig& config, const std::string& path, Precision precision,
                        const Device& device) {
  Unet out;
  out.config_ = config;
  out.table_ = std::make_unique<WeightTable>(precision);
  const Scope root(*out.table_);
  const std::int64_t first = config.channels.front();
  const std::int64_t last = config.channels.back();
  const std::int64_t time_width = 4 * first;
  out.in_ = declare_conv(root["conv_in"], config.in_channels, first, 3);
  out.time1_ = declare_linear(root["time_embedding"]["linear_1"], first, time_width);
  out.time2_ = declare_linear(root["time_embedding"]["linear_2"], time_width, time_width);
  out.declare_down(root, time_width);
  const Scope middle = root["mid_block"];
  for (std::size_t j = 0; j < 2; ++j) {
    out.middle_.resnets.push_back(declare_resnet(middle["resnets"][j], last, last, time_width));
  }
  out.middle_.transformers.push_back(
      declare_transformer(middle["attentions"][0], last, config.context, config.heads.back()));
  out.declare_up(root, time_width);
  out.norm_out_ = declare_norm(root["conv_norm_out"], first);
  out.out_ = declare_conv(root["conv_out"], first, config.out_channels, 3);
  TRY_VOID(out.table_->load(path, device.backend()));
  return out;
}

ggml_tensor* Unet::build(const Builder& b, std::int64_t width, std::int64_t height,
                         std::int64_t tokens, std::int64_t batch, Inputs& inputs) const {
  ggml_context* c = b.context();
  const UnetConfig& config = config_;
  inputs.latent =
      b.input(GGML_TYPE_F32, std::array<std::int64_t, 4>{width, height, config.in_channels, batch});
  inputs.time = b.input(GGML_TYPE_F32, std::array<std::int64_t, 2>{config.channels.front(), batch});
  inputs.words = b.input(GGML_TYPE_F32, std::array<std::int64_t, 3>{config.context, tokens, batch});
  // Every resnet takes silu of the embedding.
  ggml_tensor* time = silu(b, apply(b, time2_, silu(b, apply(b, time1_, inputs.time))));
  const auto layer = [&](const Block& block, std::size_t j, ggml_tensor* x) {
    x = apply(b, block.resnets[j], x, time, config.groups, config.epsilon);
    if (block.transformers.empty()) return x;
    return apply(b, block.transformers[j], x, inputs.words, config.groups);
  };

  ggml_tensor* x = apply(b, in_, inputs.latent);
  std::vector<ggml_tensor*> left = {x};
  for (const Block& block : down_) {
    for (std::size_t j = 0; j < block.resnets.size(); ++j) {
      x = layer(block, j, x);
      left.push_back(x);
    }
    if (block.resample) {
      x = downsample(b, *block.resample, x, true);
      left.push_back(x);
    }
  }
  x = layer(middle_, 0, x);
  x = apply(b, middle_.resnets[1], x, time, config.groups, config.epsilon);
  for (const Block& block : up_) {
    for (std::size_t j = 0; j < block.resnets.size(); ++j) {
      x = layer(block, j, ggml_concat(c, x, left.back(), 2));
      left.pop_back();
    }
    if (block.resample) x = upsample(b, *block.resample, x);
  }
  x = group_norm(b, norm_out_, x, config.groups, config.epsilon, Then::Silu);
  return apply(b, out_, x);
}

std::vector<float> Unet::time_embedding(float timestep) const {
  const std::size_t half = config_.channels.front() / 2;
  std::vector<float> out(2 * half);
  for (std::size_t i = 0; i < half; ++i) {
    const double exponent =
        static_cast<double>(i) / (static_cast<double>(half) - double{config_.frequency_shift});
    const double angle = double{timestep} * std::exp(-std::log(10000.0) * exponent);
    const std::size_t cosine = config_.flip_sin_to_cos ? i : half + i;
    const std::size_t sine = config_.flip_sin_to_cos ? half + i : i;
    out[cosine] = static_cast<float>(std::cos(angle));
    out[sine] = static_cast<float>(std::sin(angle));
  }
  return out;
}

}  // namespace lares::diffusion
