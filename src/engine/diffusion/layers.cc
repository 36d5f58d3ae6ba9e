#include "engine/diffusion/layers.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <ggml.h>

namespace lares::diffusion {
namespace {

constexpr float kTransformerEpsilon =
    1e-6F;                                  // GroupNorm of Transformer2DModel: fixed in diffusers.
constexpr float kLayerNormEpsilon = 1e-5F;  // PyTorch's default.

// Joins bands along dimension 1, in pairs: every value is copied log2(n) times.
ggml_tensor* joined(const Builder& b, std::vector<ggml_tensor*> bands) {
  while (bands.size() > 1) {
    std::vector<ggml_tensor*> pairs;
    for (std::size_t i = 0; i + 1 < bands.size(); i += 2) {
      pairs.push_back(ggml_concat(b.context(), bands[i], bands[i + 1], 1));
    }
    if (bands.size() % 2 != 0) pairs.push_back(bands.back());
    bands = std::move(pairs);
  }
  return bands.front();
}

// Rows [first, first + count) of dimension 1.
ggml_tensor* rows_of(const Builder& b, ggml_tensor* x, std::int64_t first, std::int64_t count) {
  return ggml_view_4d(b.context(), x, x->ne[0], count, x->ne[2], x->ne[3], x->nb[1], x->nb[2],
                      x->nb[3], static_cast<std::size_t>(first) * x->nb[1]);
}

// `part(first, count)` for bands of `rows` rows, joined.
ggml_tensor* in_bands(const Builder& b, std::int64_t rows, std::int64_t bands,
                      const std::function<ggml_tensor*(std::int64_t, std::int64_t)>& part) {
  std::vector<ggml_tensor*> parts;
  for (std::int64_t i = 0; i < bands; ++i) {
    const std::int64_t first = rows * i / bands;
    parts.push_back(part(first, rows * (i + 1) / bands - first));
  }
  return joined(b, std::move(parts));
}

// A value for each channel, where maps have theirs.
ggml_tensor* per_channel(const Builder& b, ggml_tensor* values) {
  return ggml_reshape_4d(b.context(), values, 1, 1, values->ne[0], values->ne[1]);
}

ggml_tensor* to_tokens(const Builder& b, ggml_tensor* map) {
  ggml_context* c = b.context();
  ggml_tensor* x = ggml_cont(c, ggml_permute(c, map, 1, 2, 0, 3));  // [channels, width, height, n]
  return ggml_reshape_3d(c, x, map->ne[2], map->ne[0] * map->ne[1], map->ne[3]);
}

ggml_tensor* to_map(const Builder& b, ggml_tensor* tokens, Shape shape) {
  ggml_context* c = b.context();
  ggml_tensor* x =
      ggml_reshape_4d(c, tokens, tokens->ne[0], shape.width, shape.height, tokens->ne[2]);
  return ggml_cont(c, ggml_permute(c, x, 2, 0, 1, 3));
}

bool has_kernel(const Builder& b, const ggml_tensor* weight) {
  return b.kernels() != nullptr && (weight->type == GGML_TYPE_F32 || weight->type == GGML_TYPE_F16);
}

// A product as a node of our own.
ggml_tensor* product(const Builder& b, GemmJob job, ggml_tensor* weight, ggml_tensor* bias,
                     ggml_tensor* x, Added added) {
  job.half = weight->type == GGML_TYPE_F16;
  const std::int64_t columns = job.images * job.out_width * job.out_height;
  // Gathering a column costs about as much as a few rows of the matrix.
  const double ops = 2.0 * static_cast<double>(job.rows + 8) * static_cast<double>(job.depth) *
                     static_cast<double>(columns);
  if (added.shift != nullptr) {
    job.bias_step = job.rows;
    bias = bias == nullptr ? added.shift : ggml_add(b.context(), added.shift, bias);
  }
  return b.custom().product(b.context(), b.kernels(),
                            {.job = job,
                             .weight = weight,
                             .in = x,
                             .bias = bias,
                             .residual = added.residual,
                             .ops = ops,
                             .bands = b.bands(ops, job.out_height)});
}

struct Step {
  int stride, pad;  // Zeros on the left and above; and so many at the other sides as are missing.
  std::int64_t width, height;  // Of the output.
  bool doubled = false;        // The map is first made twice as large.
};

ggml_tensor* convolve_with_ggml(const Builder& b, const Conv& layer, ggml_tensor* map, Step step) {
  ggml_context* c = b.context();
  const std::int64_t kernel = layer.weight->ne[0];
  const int pad = step.pad, stride = step.stride;
  if (step.doubled) map = ggml_upscale(c, map, 2, GGML_SCALE_MODE_NEAREST);
  // ggml knows the same zeros on both sides; others are put there first.
  const bool lopsided = (map->ne[0] + 2 * pad - kernel) / stride + 1 != step.width;
  if (lopsided) map = ggml_pad(c, map, 1, 1, 0, 0);
  const double ops =
      (2.0 * static_cast<double>(layer.weight->ne[3]) + 32) *
      static_cast<double>(kernel * kernel * map->ne[2] * step.width * step.height * map->ne[3]);
  const std::int64_t bands = b.bands(ops, step.height);
  if (bands == 1) {
    return ggml_conv_2d_direct(c, layer.weight, map, stride, stride, pad, pad, 1, 1);
  }
  ggml_tensor* padded = pad == 0 ? map : ggml_pad_ext(c, map, 0, 0, pad, pad, 0, 0, 0, 0);
  return in_bands(b, step.height, bands, [&](std::int64_t first, std::int64_t count) {
    ggml_tensor* part = rows_of(b, padded, first * stride, (count - 1) * stride + kernel);
    return ggml_conv_2d_direct(c, layer.weight, part, stride, stride, pad, 0, 1, 1);
  });
}

ggml_tensor* convolve(const Builder& b, const Conv& layer, ggml_tensor* map, Step step,
                      Added added = {}) {
  if (has_kernel(b, layer.weight)) {
    const std::int64_t kernel = layer.weight->ne[0];
    return product(b,
                   {.rows = layer.weight->ne[3],
                    .depth = kernel * kernel * map->ne[2],
                    .images = map->ne[3],
                    .in_width = map->ne[0],
                    .in_height = map->ne[1],
                    .out_width = step.width,
                    .out_height = step.height,
                    .kernel = kernel,
                    .stride = step.stride,
                    .pad = step.pad,
                    .doubled = step.doubled ? 1 : 0},
                   layer.weight, layer.bias, map, added);
  }
  ggml_context* c = b.context();
  ggml_tensor* x = convolve_with_ggml(b, layer, map, step);
  x = ggml_add(c, x, per_channel(b, layer.bias));
  if (added.shift != nullptr) x = ggml_add(c, x, per_channel(b, added.shift));
  return added.residual == nullptr ? x : ggml_add(c, x, added.residual);
}

ggml_tensor* heads_apart(const Builder& b, ggml_tensor* x, std::int64_t heads) {
  return ggml_reshape_4d(b.context(), x, x->ne[0] / heads, heads, x->ne[1], x->ne[2]);
}

}  // namespace

Linear declare_linear(const Scope& at, std::int64_t in, std::int64_t out, bool bias) {
  Linear layer{.weight = at.add("weight", {out, in}, Role::Matrix)};
  if (bias) layer.bias = at.add("bias", {out}, Role::Vector);
  return layer;
}

Conv declare_conv(const Scope& at, std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return {.weight = at.add("weight", {out, in, kernel, kernel}, Role::Kernel),
          .bias = at.add("bias", {out}, Role::Vector)};
}

Norm declare_norm(const Scope& at, std::int64_t width) {
  return {.weight = at.add("weight", {width}, Role::Vector),
          .bias = at.add("bias", {width}, Role::Vector)};
}

ggml_tensor* apply(const Builder& b, const Linear& layer, ggml_tensor* x, Shape out, Added added) {
  ggml_context* c = b.context();
  const std::int64_t in = layer.weight->ne[0], rows = ggml_nelements(layer.weight) / in;
  const bool tokens_in = x->ne[0] == in && x->ne[3] == 1;
  if (has_kernel(b, layer.weight)) {
    // Bands are of a map's rows, or of tokens.
    const std::int64_t width = tokens_in ? std::max<std::int64_t>(1, out.width) : x->ne[0];
    const std::int64_t height = tokens_in ? x->ne[1] / width : x->ne[1];
    return product(b,
                   {.rows = rows,
                    .depth = in,
                    .tokens_in = tokens_in,
                    .tokens_out = out.kind == Shape::Kind::Tokens,
                    .images = tokens_in ? x->ne[2] : x->ne[3],
                    .in_width = width,
                    .in_height = height,
                    .out_width = width,
                    .out_height = height},
                   layer.weight, layer.bias, x, added);
  }
  ggml_tensor* tokens = tokens_in ? x : to_tokens(b, x);
  const double ops = 2.0 * static_cast<double>(rows) * static_cast<double>(ggml_nelements(tokens));
  const std::int64_t bands = b.bands(ops, tokens->ne[1]);
  ggml_tensor* matrix = ggml_reshape_2d(c, layer.weight, in, rows);
  ggml_tensor* y =
      bands == 1 ? ggml_mul_mat(c, matrix, tokens)
                 : in_bands(b, tokens->ne[1], bands, [&](std::int64_t first, std::int64_t count) {
                     return ggml_mul_mat(c, matrix, ggml_cont(c, rows_of(b, tokens, first, count)));
                   });
  if (layer.bias != nullptr) y = ggml_add(c, y, layer.bias);
  if (out.kind == Shape::Kind::Map) y = to_map(b, y, out);
  return added.residual == nullptr ? y : ggml_add(c, y, added.residual);
}

ggml_tensor* apply(const Builder& b, const Conv& layer, ggml_tensor* map, Added added) {
  const int pad = static_cast<int>(layer.weight->ne[0] / 2);
  return convolve(b, layer, map, {1, pad, map->ne[0], map->ne[1], false}, added);
}

ggml_tensor* layer_norm(const Builder& b, const Norm& norm, ggml_tensor* tokens, float epsilon) {
  ggml_context* c = b.context();
  ggml_tensor* x = ggml_norm(c, tokens, epsilon);
  return ggml_add(c, ggml_mul(c, x, norm.weight), norm.bias);
}

ggml_tensor* group_norm(const Builder& b, const Norm& norm, ggml_tensor* map, std::uint32_t groups,
                        float epsilon, Then then) {
  ggml_context* c = b.context();
  if (b.kernels() != nullptr) {
    const double ops = 60.0 * static_cast<double>(ggml_nelements(map));
    return b.custom().norm(c, b.kernels(),
                           {.area = map->ne[0] * map->ne[1],
                            .channels = map->ne[2],
                            .images = map->ne[3],
                            .groups = groups,
                            .epsilon = epsilon,
                            .silu = then == Then::Silu},
                           map, norm.weight, norm.bias, ops, b.bands(ops, groups * map->ne[3]));
  }
  ggml_tensor* x = ggml_group_norm(c, map, static_cast<int>(groups), epsilon);
  x = ggml_add(c, ggml_mul(c, x, per_channel(b, norm.weight)), per_channel(b, norm.bias));
  return then == Then::Silu ? silu(b, x) : x;
}

ggml_tensor* silu(const Builder& b, ggml_tensor* x) {
  return ggml_silu(b.context(), x);
}

ggml_tensor* downsample(const Builder& b, const Conv& conv, ggml_tensor* map, bool all_sides) {
  return convolve(b, conv, map, {2, all_sides ? 1 : 0, map->ne[0] / 2, map->ne[1] / 2, false});
}

ggml_tensor* upsample(const Builder& b, const Conv& conv, ggml_tensor* map) {
  return convolve(b, conv, map, {1, 1, 2 * map->ne[0], 2 * map->ne[1], true});
}

ggml_tensor* attend(const Builder& b, ggml_tensor* q, ggml_tensor* k, ggml_tensor* v,
                    std::int64_t heads, ggml_tensor* mask) {
  ggml_context* c = b.context();
  const std::int64_t width = q->ne[0], queries = q->ne[1], keys = k->ne[1], batch = q->ne[2];
  const float scale = 1.0F / std::sqrt(static_cast<float>(width / heads));
  const double ops = 2.0 * static_cast<double>(width * keys) * static_cast<double>(queries * batch);
  // The values turned, [tokens, d, heads, n], so that rows are summed over.
  ggml_tensor* vh = ggml_cont(c, ggml_permute(c, heads_apart(b, v, heads), 1, 2, 0, 3));
  if (b.kernels() != nullptr) {
    const double softening =
        30.0 * static_cast<double>(heads * keys) * static_cast<double>(queries * batch);
    return b.custom().attention(c, b.kernels(),
                                {.images = batch,
                                 .heads = heads,
                                 .width = width,
                                 .queries = queries,
                                 .keys = keys,
                                 .scale = scale,
                                 .causal = mask != nullptr},
                                q, k, vh, 2 * ops + softening,
                                b.bands(2 * ops + softening, queries));
  }
  ggml_tensor* qh = ggml_cont(c, ggml_permute(c, heads_apart(b, q, heads), 0, 2, 1, 3));
  ggml_tensor* kh = ggml_cont(c, ggml_permute(c, heads_apart(b, k, heads), 0, 2, 1, 3));
  const auto part = [&](ggml_tensor* some, std::int64_t count) {
    ggml_tensor* scores = ggml_soft_max_ext(c, ggml_mul_mat(c, kh, some), mask, scale, 0.0F);
    ggml_tensor* sums = ggml_mul_mat(c, vh, scores);  // [d, queries, heads, n]
    ggml_tensor* together = ggml_cont(c, ggml_permute(c, sums, 0, 2, 1, 3));
    return ggml_reshape_3d(c, together, width, count, batch);
  };
  const std::int64_t bands = mask != nullptr ? 1 : b.bands(ops, queries);
  if (bands == 1) return part(qh, queries);
  return in_bands(b, queries, bands, [&](std::int64_t first, std::int64_t count) {
    return part(ggml_cont(c, rows_of(b, qh, first, count)), count);
  });
}

Resnet declare_resnet(const Scope& at, std::int64_t in, std::int64_t out, std::int64_t time_width) {
  Resnet block{.norm1 = declare_norm(at["norm1"], in),
               .norm2 = declare_norm(at["norm2"], out),
               .conv1 = declare_conv(at["conv1"], in, out, 3),
               .conv2 = declare_conv(at["conv2"], out, out, 3)};
  if (time_width > 0) block.time = declare_linear(at["time_emb_proj"], time_width, out);
  if (in != out) block.shortcut = declare_conv(at["conv_shortcut"], in, out, 1);
  return block;
}

ggml_tensor* apply(const Builder& b, const Resnet& block, ggml_tensor* map, ggml_tensor* time,
                   std::uint32_t groups, float epsilon) {
  Added shift;
  if (block.time) shift.shift = apply(b, *block.time, time);  // [channels, n]
  ggml_tensor* x = group_norm(b, block.norm1, map, groups, epsilon, Then::Silu);
  x = apply(b, block.conv1, x, shift);
  x = group_norm(b, block.norm2, x, groups, epsilon, Then::Silu);
  ggml_tensor* residual = block.shortcut ? apply(b, *block.shortcut, map) : map;
  return apply(b, block.conv2, x, {.residual = residual});
}

MapAttention declare_map_attention(const Scope& at, std::int64_t width) {
  // The second name is what folders from before diffusers 0.14 have: Stable Diffusion 1.5 does.
  const auto linear = [&](std::string_view name, std::string_view old_name) {
    const auto both = [](std::string_view scope, std::string_view part) {
      return std::string(scope) + "." + std::string(part);
    };
    return Linear{
        .weight =
            at.add(both(name, "weight"), {width, width}, Role::Matrix, both(old_name, "weight")),
        .bias = at.add(both(name, "bias"), {width}, Role::Vector, both(old_name, "bias"))};
  };
  return {.norm = declare_norm(at["group_norm"], width),
          .q = linear("to_q", "query"),
          .k = linear("to_k", "key"),
          .v = linear("to_v", "value"),
          .out = linear("to_out.0", "proj_attn")};
}

ggml_tensor* apply(const Builder& b, const MapAttention& layer, ggml_tensor* map,
                   std::uint32_t groups, float epsilon) {
  ggml_tensor* x = group_norm(b, layer.norm, map, groups, epsilon, Then::Nothing);
  x = attend(b, apply(b, layer.q, x), apply(b, layer.k, x), apply(b, layer.v, x), 1);
  return apply(b, layer.out, x, {Shape::Kind::Map, map->ne[0], map->ne[1]}, {.residual = map});
}

Transformer declare_transformer(const Scope& at, std::int64_t width, std::int64_t context,
                                std::int64_t heads) {
  const Scope block = at["transformer_blocks"][0];
  const Scope own = block["attn1"], cross = block["attn2"], feed = block["ff"]["net"];
  return {.norm = declare_norm(at["norm"], width),
          .proj_in = declare_linear(at["proj_in"], width, width),
          .proj_out = declare_linear(at["proj_out"], width, width),
          .norm1 = declare_norm(block["norm1"], width),
          .norm2 = declare_norm(block["norm2"], width),
          .norm3 = declare_norm(block["norm3"], width),
          .q1 = declare_linear(own["to_q"], width, width, false),
          .k1 = declare_linear(own["to_k"], width, width, false),
          .v1 = declare_linear(own["to_v"], width, width, false),
          .out1 = declare_linear(own["to_out"][0], width, width),
          .q2 = declare_linear(cross["to_q"], width, width, false),
          .k2 = declare_linear(cross["to_k"], context, width, false),
          .v2 = declare_linear(cross["to_v"], context, width, false),
          .out2 = declare_linear(cross["to_out"][0], width, width),
          .gate = declare_linear(feed[0]["proj"], width, 8 * width),
          .feed = declare_linear(feed[2], 4 * width, width),
          .heads = heads};
}

ggml_tensor* apply(const Builder& b, const Transformer& block, ggml_tensor* map, ggml_tensor* words,
                   std::uint32_t groups) {
  ggml_context* c = b.context();
  const auto& t = block;
  // A 1x1 convolution is the same product as a matrix over tokens.
  ggml_tensor* x = group_norm(b, t.norm, map, groups, kTransformerEpsilon, Then::Nothing);
  x = apply(b, t.proj_in, x);
  ggml_tensor* n = layer_norm(b, t.norm1, x, kLayerNormEpsilon);
  n = attend(b, apply(b, t.q1, n), apply(b, t.k1, n), apply(b, t.v1, n), t.heads);
  x = apply(b, t.out1, n, kTokens, {.residual = x});
  n = layer_norm(b, t.norm2, x, kLayerNormEpsilon);
  n = attend(b, apply(b, t.q2, n), apply(b, t.k2, words), apply(b, t.v2, words), t.heads);
  x = apply(b, t.out2, n, kTokens, {.residual = x});
  n = apply(b, t.gate, layer_norm(b, t.norm3, x, kLayerNormEpsilon));
  // First half times gelu(second half), exact gelu.
  n = b.kernels() != nullptr
          ? b.custom().geglu(c, b.kernels(), n, 30.0 * static_cast<double>(ggml_nelements(n)))
          : ggml_geglu_erf_swapped(c, n);
  x = apply(b, t.feed, n, kTokens, {.residual = x});
  return apply(b, t.proj_out, x, {Shape::Kind::Map, map->ne[0], map->ne[1]}, {.residual = map});
}

}  // namespace lares::diffusion
