#include "engine/diffusion/objects.h"

namespace lares::diffusion {
namespace {

struct StepsDone {
  std::uint32_t operator()(const WordsObject& o) const { return o.values != nullptr ? 1 : 0; }
  std::uint32_t operator()(const SampleObject& o) const { return o.done; }
  std::uint32_t operator()(const LatentObject&) const { return 0; }
  std::uint32_t operator()(const DecodeObject& o) const { return o.pixels.empty() ? 0 : 1; }
  std::uint32_t operator()(const EncodeObject& o) const { return o.latent.empty() ? 0 : 1; }
};

}  // namespace

std::uint32_t Object::steps() const {
  if (const auto* sample = std::get_if<SampleObject>(&is)) {
    return static_cast<std::uint32_t>(sample->trajectory.steps.size());
  }
  return std::holds_alternative<LatentObject>(is) ? 0 : 1;
}

std::uint32_t Object::steps_done() const {
  return std::visit(StepsDone{}, is);
}

}  // namespace lares::diffusion
