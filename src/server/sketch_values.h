// What goes into the carrying out of a sketch, and what comes out: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/types.h"
#include "engine/picture.h"
#include "sketch/plan.h"

namespace lares::server {

// A run-time input: a text, texts, or a picture.
struct SketchInput {
  std::string name{};
  std::vector<std::string> texts{};
  bool list = false;
  std::shared_ptr<const engine::Picture> picture{};
};

// A latent that was kept, by the id behind `lat:`.
struct KeptLatent {
  engine::LatentCopy latent{};
  std::uint64_t seed = 0;  // Of one that is not clean: of its noise.
};
using KeptLatents = std::map<std::string, std::shared_ptr<const KeptLatent>>;

// What was done, for the record.
struct SketchCounts {
  std::uint32_t unet_steps = 0;  // Of single pictures.
  std::uint32_t decodes = 0, encodes = 0, text_encodes = 0;
  std::uint32_t cache_hits = 0;
  std::uint64_t bytes_copied = 0;  // From the device, and to it.
};

struct SketchOutput {
  std::uint32_t index = 0;  // Among all files of the sketch.
  std::string medium{};
  std::string text{};
  engine::Picture picture{};
};

// A latent to be kept, as its sketch says.
struct SketchKeep {
  std::uint32_t index = 0;  // Among all that the sketch keeps.
  std::string name{};
  sketch::Type type{};
  Duration time{};
  std::uint64_t seed = 0;
  engine::LatentCopy latent{};
};

}  // namespace lares::server
