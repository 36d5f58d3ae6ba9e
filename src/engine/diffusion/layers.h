// The layers that the text encoder, the U-Net and the autoencoder are made of: what weights each
// has, under which names, and its part of a graph.
//
// Two shapes of activations, innermost dimension first as ggml has it: maps are [width, height,
// channels, batch], tokens are [channels, tokens, batch]. Names and maths are those of the
// published checkpoints (diffusers, transformers); each apply function says which class it is.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/diffusion/graph.h"
#include "engine/diffusion/weights.h"

namespace lares::diffusion {

struct Linear {
  ggml_tensor* weight = nullptr;
  ggml_tensor* bias = nullptr;  // nullptr if it has none.
};
struct Conv {
  ggml_tensor* weight = nullptr;
  ggml_tensor* bias = nullptr;
};
struct Norm {
  ggml_tensor* weight = nullptr;
  ggml_tensor* bias = nullptr;
};

Linear declare_linear(const Scope& at, std::int64_t in, std::int64_t out, bool bias = true);
Conv declare_conv(const Scope& at, std::int64_t in, std::int64_t out, std::int64_t kernel);
Norm declare_norm(const Scope& at, std::int64_t width);

// Where a product's values are: side by side for each token, or in maps of so many pixels.
struct Shape {
  enum class Kind : std::uint8_t { Tokens, Map } kind = Kind::Tokens;
  std::int64_t width = 0, height = 0;
};
inline constexpr Shape kTokens{};

// What is added to a product on its way out, where not nullptr: for each image (and channel) a
// value, [channels, batch], instead of the layer's own bias; and for each value of the output one.
struct Added {
  ggml_tensor* shift = nullptr;
  ggml_tensor* residual = nullptr;
};

// The input may be a map: a matrix over its pixels' channels.
ggml_tensor* apply(const Builder& b, const Linear& layer, ggml_tensor* x, Shape out = kTokens,
                   Added added = {});
// Stride 1, as large as before (a kernel of 1 or 3).
ggml_tensor* apply(const Builder& b, const Conv& layer, ggml_tensor* map, Added added = {});
ggml_tensor* layer_norm(const Builder& b, const Norm& norm, ggml_tensor* tokens, float epsilon);
enum class Then : std::uint8_t { Nothing, Silu };
ggml_tensor* group_norm(const Builder& b, const Norm& norm, ggml_tensor* map, std::uint32_t groups,
                        float epsilon, Then then);
ggml_tensor* silu(const Builder& b, ggml_tensor* x);

// Half as large: Downsample2D. The U-Net pads a row and column of zeros on all sides, the
// autoencoder on the right and below only.
ggml_tensor* downsample(const Builder& b, const Conv& conv, ggml_tensor* map, bool all_sides);
// Twice as large, then a convolution: Upsample2D.
ggml_tensor* upsample(const Builder& b, const Conv& conv, ggml_tensor* map);

// softmax(q k^T / sqrt(d) + mask) v, for tokens of all heads side by side. `mask` is
// [keys, queries], hides what comes after each query and nothing else, or is nullptr.
ggml_tensor* attend(const Builder& b, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v,
                    std::int64_t heads, ggml_tensor* mask = nullptr);

// ResnetBlock2D.
struct Resnet {
  Norm norm1, norm2;
  Conv conv1, conv2;
  std::optional<Linear> time{};    // The U-Net's.
  std::optional<Conv> shortcut{};  // Where the width changes.
};
Resnet declare_resnet(const Scope& at, std::int64_t in, std::int64_t out, std::int64_t time_width);
// `time` is silu(time embedding), or nullptr.
ggml_tensor* apply(const Builder& b, const Resnet& block, ggml_tensor* map, ggml_tensor* time,
                   std::uint32_t groups, float epsilon);

// Attention of the autoencoder's middle: one head over the map's own pixels.
struct MapAttention {
  Norm norm;
  Linear q, k, v, out;
};
MapAttention declare_map_attention(const Scope& at, std::int64_t width);
ggml_tensor* apply(const Builder& b, const MapAttention& layer, ggml_tensor* map,
                   std::uint32_t groups, float epsilon);

// Transformer2DModel with one BasicTransformerBlock.
struct Transformer {
  Norm norm;
  Linear proj_in, proj_out;  // Stored as 1x1 kernels unless the config says otherwise.
  Norm norm1, norm2, norm3;
  Linear q1, k1, v1, out1;  // Over the map itself.
  Linear q2, k2, v2, out2;  // Over the words.
  Linear gate, feed;        // GEGLU, and back.
  std::int64_t heads = 1;
};
Transformer declare_transformer(const Scope& at, std::int64_t width, std::int64_t context,
                                std::int64_t heads);
ggml_tensor* apply(const Builder& b, const Transformer& block, ggml_tensor* map, ggml_tensor* words,
                   std::uint32_t groups);

}  // namespace lares::diffusion
