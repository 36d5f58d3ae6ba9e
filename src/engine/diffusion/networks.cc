#include "engine/diffusion/networks.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <ggml.h>

#include "core/assert.h"

namespace lares::diffusion {

Result<Networks> Networks::load(const FolderConfig& config, const LoadSpec& spec) {
  Networks out(TRY(Device::open(spec.device, spec.library_folder, spec.threads)));
  out.config_ = config;
  out.compute_max_ = spec.compute_max;
  const Device& device = out.device_;
  out.text_ = std::make_unique<TextEncoder>(
      TRY(TextEncoder::load(config.text, config.text_weights, spec.precision, device)));
  out.unet_ = std::make_unique<Unet>(
      TRY(Unet::load(config.unet, config.unet_weights, spec.precision, device)));
  out.vae_ =
      std::make_unique<Vae>(TRY(Vae::load(config.vae, config.vae_weights, spec.precision, device)));
  if (spec.slice_max > Duration::zero()) TRY_VOID(out.measure_speed(spec.slice_max));
  return out;
}

// How many operations a node may have. Timed on a convolution like the networks' own, twice, the
// first time being for the caches; nodes that wait for memory run at half that speed or less.
Result<> Networks::measure_speed(Duration slice_max) {
  constexpr std::int64_t kSide = 32;
  constexpr double kShare = 0.5;
  const std::int64_t channels = config_.unet.channels.front();
  Conv conv;
  ggml_tensor* input = nullptr;
  const auto graph = TRY(Graph::create(device_, 0, compute_max_, "a probe", [&](const Builder& b) {
    input = b.input(GGML_TYPE_F32, std::array<std::int64_t, 4>{kSide, kSide, channels, 1});
    conv.weight = b.input(GGML_TYPE_F32, std::array<std::int64_t, 4>{3, 3, channels, channels});
    conv.bias = b.input(GGML_TYPE_F32, std::array{channels});
    return apply(b, conv, input);
  }));
  double ops_per_ns = 0;
  for (int i = 0; i < 2; ++i) {
    for (ggml_tensor* tensor : {input, conv.weight, conv.bias}) {
      ggml_backend_tensor_memset(tensor, 0, 0, ggml_nbytes(tensor));
    }
    graph->start();
    const auto ran = TRY(graph->run(device_, Duration::zero()));
    ops_per_ns = graph->ops() / static_cast<double>(std::max<std::int64_t>(1, ran.took.count()));
  }
  ops_max_ = kShare * ops_per_ns * static_cast<double>(slice_max.count());
  return {};
}

Result<NetworkGraph*> Networks::find_or_create(std::string key, const Build& build) {
  for (auto at = graphs_.begin(); at != graphs_.end(); ++at) {
    if (at->key != key) continue;
    graphs_.splice(graphs_.begin(), graphs_, at);
    return &graphs_.front();
  }
  for (;;) {
    NetworkGraph made{.key = key, .graph = nullptr};
    auto graph = Graph::create(device_, ops_max_, compute_max_ - compute(), key,
                               [&](const Builder& b) { return build(b, made); });
    if (graph) {
      made.graph = *std::move(graph);
      graphs_.push_front(std::move(made));
      return &graphs_.front();
    }
    const auto idle = std::find_if(graphs_.rbegin(), graphs_.rend(),
                                   [](const NetworkGraph& kept) { return !kept.running; });
    if (graph.error().code != Code::TooLarge || idle == graphs_.rend()) {
      return tl::unexpected(graph.error());
    }
    graphs_.erase(std::next(idle).base());
  }
}

Result<NetworkGraph*> Networks::text(std::uint32_t batch) {
  return find_or_create(fmt::format("text x{}", batch), [&](const Builder& b, NetworkGraph& g) {
    return text_->build(b, config_.tokenizer.length, batch, g.text);
  });
}

Result<NetworkGraph*> Networks::unet(LatentSize size, std::uint32_t batch) {
  return find_or_create(fmt::format("unet {}x{} x{}", size.width, size.height, batch),
                        [&](const Builder& b, NetworkGraph& g) {
                          return unet_->build(b, size.width, size.height, config_.tokenizer.length,
                                              batch, g.unet);
                        });
}

Result<NetworkGraph*> Networks::decoder(LatentSize size) {
  return find_or_create(fmt::format("vae decoder {}x{}", size.width, size.height),
                        [&](const Builder& b, NetworkGraph& g) {
                          return vae_->build_decoder(b, size.width, size.height, g.map);
                        });
}

Result<NetworkGraph*> Networks::encoder(LatentSize size) {
  const std::int64_t factor = config_.vae.factor();
  return find_or_create(fmt::format("vae encoder {}x{}", size.width, size.height),
                        [&](const Builder& b, NetworkGraph& g) {
                          return vae_->build_encoder(b, factor * size.width, factor * size.height,
                                                     g.map);
                        });
}

Bytes Networks::weights() const {
  return text_->bytes() + unet_->bytes() + vae_->bytes();
}

Bytes Networks::compute() const {
  Bytes sum;
  for (const NetworkGraph& graph : graphs_) sum += graph.graph->bytes();
  return sum;
}

}  // namespace lares::diffusion
