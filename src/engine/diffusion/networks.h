// The three networks of a model, and their graphs: built on demand for a shape, kept while there is
// room, the one longest unused given up first.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "engine/diffusion/text_encoder.h"
#include "engine/diffusion/unet.h"
#include "engine/diffusion/vae.h"

namespace lares::diffusion {

// A graph and its inputs; which of them are set depends on what it is.
struct NetworkGraph {
  std::string key;
  std::unique_ptr<Graph> graph;
  TextEncoder::Inputs text{};
  Unet::Inputs unet{};
  ggml_tensor* map = nullptr;  // Of an autoencoder's half.
  bool running = false;        // A pass over it has begun and not ended: it must stay.
};

struct LatentSize {
  std::uint32_t width = 0, height = 0;  // Latent pixels.
};

class Networks {
 public:
  // Errors: of reading the weights, Unavailable.
  static Result<Networks> load(const FolderConfig& config, const LoadSpec& spec);

  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] const Unet& unet() const { return *unet_; }

  // Each stays valid until another one is asked for, and as long as it is running. Errors:
  // TooLarge.
  Result<NetworkGraph*> text(std::uint32_t batch);
  Result<NetworkGraph*> unet(LatentSize size, std::uint32_t batch);
  Result<NetworkGraph*> decoder(LatentSize size);
  Result<NetworkGraph*> encoder(LatentSize size);  // Of the latent that comes out.

  [[nodiscard]] Bytes weights() const;
  [[nodiscard]] Bytes compute() const;  // Buffers of all graphs that are kept.

 private:
  using Build = std::function<ggml_tensor*(const Builder&, NetworkGraph&)>;
  explicit Networks(Device device) : device_(std::move(device)) {}
  Result<NetworkGraph*> find_or_create(std::string key, const Build& build);
  Result<> measure_speed(Duration slice_max);

  FolderConfig config_;
  Bytes compute_max_;
  double ops_max_ = 0;  // Of one node.
  Device device_;       // Outlives everything that lies on it.
  std::unique_ptr<TextEncoder> text_;
  std::unique_ptr<Unet> unet_;
  std::unique_ptr<Vae> vae_;
  std::list<NetworkGraph> graphs_;  // Last used first.
};

}  // namespace lares::diffusion
