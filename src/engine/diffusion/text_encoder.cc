#include "engine/diffusion/text_encoder.h"

#include <array>
#include <limits>
#include <numeric>

#include <ggml.h>

namespace lares::diffusion {

Result<TextEncoder> TextEncoder::load(const TextConfig& config, const std::string& path,
                                      Precision precision, const Device& device) {
  TextEncoder out;
  out.config_ = config;
  out.table_ = std::make_unique<WeightTable>(precision);
  const Scope root = Scope(*out.table_)["text_model"];
  const std::int64_t width = config.width;
  const Scope embeddings = root["embeddings"];
  out.tokens_ =
      embeddings["token_embedding"].add("weight", {config.vocabulary, width}, Role::Table);
  out.positions_ =
      embeddings["position_embedding"].add("weight", {config.positions, width}, Role::Table);
  for (std::size_t i = 0; i < config.layers; ++i) {
    const Scope at = root["encoder"]["layers"][i];
    const Scope attention = at["self_attn"];
    out.layers_.push_back({.norm1 = declare_norm(at["layer_norm1"], width),
                           .norm2 = declare_norm(at["layer_norm2"], width),
                           .q = declare_linear(attention["q_proj"], width, width),
                           .k = declare_linear(attention["k_proj"], width, width),
                           .v = declare_linear(attention["v_proj"], width, width),
                           .out = declare_linear(attention["out_proj"], width, width),
                           .fc1 = declare_linear(at["mlp"]["fc1"], width, config.inner),
                           .fc2 = declare_linear(at["mlp"]["fc2"], config.inner, width)});
  }
  out.final_ = declare_norm(root["final_layer_norm"], width);
  // 0, 1, 2...: older releases of transformers wrote it down.
  out.table_->allow("text_model.embeddings.position_ids");
  TRY_VOID(out.table_->load(path, device.backend()));
  return out;
}

ggml_tensor* TextEncoder::build(const Builder& b, std::int64_t tokens, std::int64_t batch,
                                Inputs& inputs) const {
  ggml_context* c = b.context();
  inputs.ids = b.input(GGML_TYPE_I32, std::array{tokens * batch});
  inputs.positions = b.input(GGML_TYPE_I32, std::array{tokens});
  inputs.mask = b.input(GGML_TYPE_F32, std::array{tokens, tokens});
  ggml_tensor* x =
      ggml_reshape_3d(c, ggml_get_rows(c, tokens_, inputs.ids), config_.width, tokens, batch);
  x = ggml_add(c, x, ggml_get_rows(c, positions_, inputs.positions));
  for (const Layer& layer : layers_) {
    ggml_tensor* n = layer_norm(b, layer.norm1, x, config_.epsilon);
    n = attend(b, apply(b, layer.q, n), apply(b, layer.k, n), apply(b, layer.v, n), config_.heads,
               inputs.mask);
    x = apply(b, layer.out, n, kTokens, {.residual = x});
    n = apply(b, layer.fc1, layer_norm(b, layer.norm2, x, config_.epsilon));
    // x * sigmoid(1.702 x), in parts: ggml_gelu_quick looks it up in half precision.
    n = config_.activation == TextActivation::QuickGelu
            ? ggml_mul(c, n, ggml_sigmoid(c, ggml_scale(c, n, 1.702F)))
            : ggml_gelu_erf(c, n);
    x = apply(b, layer.fc2, n, kTokens, {.residual = x});
  }
  return layer_norm(b, final_, x, config_.epsilon);
}

void TextEncoder::set_constants(const Inputs& inputs) {
  const std::int64_t tokens = inputs.positions->ne[0];
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), 0);
  ggml_backend_tensor_set(inputs.positions, positions.data(), 0, ggml_nbytes(inputs.positions));
  if (inputs.mask->buffer == nullptr) return;  // The graph's own attention needs none.
  std::vector<float> mask(static_cast<std::size_t>(tokens * tokens), 0.0F);
  for (std::int64_t query = 0; query < tokens;
       ++query) {  // A token sees itself and what is before.
    for (std::int64_t key = query + 1; key < tokens; ++key) {
      mask[static_cast<std::size_t>(query * tokens + key)] =
          -std::numeric_limits<float>::infinity();
    }
  }
  ggml_backend_tensor_set(inputs.mask, mask.data(), 0, ggml_nbytes(inputs.mask));
}

}  // namespace lares::diffusion
