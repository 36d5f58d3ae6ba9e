// UNet2DConditionModel: what of a noisy latent is noise (or v), given a timestep and words.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/diffusion/config.h"
#include "engine/diffusion/layers.h"

namespace lares::diffusion {

class Unet {
 public:
  // Errors: of WeightTable::load.
  static Result<Unet> load(const UnetConfig& config, const std::string& path, Precision precision,
                           const Device& device);

  // Width and height of latents must be multiples of this: halved so often, and doubled again.
  [[nodiscard]] std::uint32_t multiple() const { return 1U << (config_.channels.size() - 1); }

  struct Inputs {
    ggml_tensor* latent = nullptr;  // F32 [width, height, channels, batch]
    ggml_tensor* time = nullptr;    // F32 [embedding, batch], of time_embedding()
    ggml_tensor* words = nullptr;   // F32 [context, tokens, batch]
  };
  // Each row of the batch has a timestep and words of its own. Output as the latent.
  ggml_tensor* build(const Builder& b, std::int64_t width, std::int64_t height, std::int64_t tokens,
                     std::int64_t batch, Inputs& inputs) const;

  // Sines and cosines of the timestep (Ho et al. 2020), which the network's first layer takes in.
  [[nodiscard]] std::vector<float> time_embedding(float timestep) const;

  [[nodiscard]] Bytes bytes() const { return table_->bytes(); }

 private:
  struct Block {
    std::vector<Resnet> resnets;
    std::vector<Transformer> transformers;  // One for each resnet, or none.
    std::optional<Conv> resample;           // Down or up; not in the last block.
  };
  void declare_down(const Scope& root, std::int64_t time_width);
  void declare_up(const Scope& root, std::int64_t time_width);

  UnetConfig config_;
  std::unique_ptr<WeightTable> table_;
  Conv in_, out_;
  Norm norm_out_;
  Linear time1_, time2_;
  std::vector<Block> down_, up_;
  Block middle_;
};

}  // namespace lares::diffusion
