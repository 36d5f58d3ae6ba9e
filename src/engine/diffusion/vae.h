// AutoencoderKL: pixels of about -1..1 to latents and back.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/diffusion/config.h"
#include "engine/diffusion/layers.h"

namespace lares::diffusion {

class Vae {
 public:
  // Errors: of WeightTable::load.
  static Result<Vae> load(const VaeConfig& config, const std::string& path, Precision precision,
                          const Device& device);

  // `input` becomes F32 [width, height, channels, 1]: a latent already divided by the scaling
  // factor, of so many latent pixels. Output: pixels [w, h, 3, 1].
  ggml_tensor* build_decoder(const Builder& b, std::int64_t width, std::int64_t height,
                             ggml_tensor*& input) const;
  // `input`: pixels, of so many. Output: [w, h, 2 * latent channels, 1], means and then logarithms
  // of variances, not scaled.
  ggml_tensor* build_encoder(const Builder& b, std::int64_t width, std::int64_t height,
                             ggml_tensor*& input) const;

  [[nodiscard]] Bytes bytes() const { return table_->bytes(); }

 private:
  struct Block {
    std::vector<Resnet> resnets;
    std::optional<Conv> resample;
  };
  struct Half {  // Encoder or decoder.
    Conv in, out, quant;
    Norm norm_out;
    std::vector<Block> blocks;
    std::vector<Resnet> middle;
    MapAttention attention;
  };
  void declare_encoder(const Scope& root);
  void declare_decoder(const Scope& root);
  void declare_middle(const Scope& at, Half& half) const;
  ggml_tensor* middle(const Builder& b, const Half& half, ggml_tensor* x) const;

  VaeConfig config_;
  std::unique_ptr<WeightTable> table_;
  Half encoder_, decoder_;
};

}  // namespace lares::diffusion
