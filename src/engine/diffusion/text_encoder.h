// CLIPTextModel: token ids to conditioning, the last hidden state after the final norm.
#pragma once

#include <memory>
#include <vector>

#include "engine/diffusion/config.h"
#include "engine/diffusion/layers.h"

namespace lares::diffusion {

class TextEncoder {
 public:
  // Errors: of WeightTable::load.
  static Result<TextEncoder> load(const TextConfig& config, const std::string& path,
                                  Precision precision, const Device& device);

  struct Inputs {
    ggml_tensor* ids = nullptr;        // I32 [tokens * batch]
    ggml_tensor* positions = nullptr;  // I32 [tokens]
    ggml_tensor* mask = nullptr;       // F32 [tokens, tokens]
  };
  // Output: [width, tokens, batch]. The inputs besides `ids` are set by set_constants().
  ggml_tensor* build(const Builder& b, std::int64_t tokens, std::int64_t batch,
                     Inputs& inputs) const;
  static void set_constants(const Inputs& inputs);

  [[nodiscard]] Bytes bytes() const { return table_->bytes(); }

 private:
  struct Layer {
    Norm norm1, norm2;
    Linear q, k, v, out, fc1, fc2;
  };
  TextConfig config_;
  std::unique_ptr<WeightTable> table_;
  ggml_tensor* tokens_ = nullptr;
  ggml_tensor* positions_ = nullptr;
  std::vector<Layer> layers_;
  Norm final_;
};

}  // namespace lares::diffusion
