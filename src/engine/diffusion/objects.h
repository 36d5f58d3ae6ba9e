// What stands behind a handle: a piece of work, then its result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/diffusion/diffusion.h"
#include "engine/diffusion/schedule.h"

namespace lares::diffusion {

using SharedValues = std::shared_ptr<const std::vector<float>>;  // Several samples use one.

struct WordsObject {
  std::vector<std::int32_t> ids;
  SharedValues values;  // nullptr until encoded.
};

struct SampleObject {
  Sample spec;
  Size size;
  SharedValues words, negative;
  Trajectory trajectory{};
  std::uint32_t done = 0;
  std::vector<float> x{};      // As the sampler has it; the clean latent once all steps are done.
  std::vector<float> clean{};  // As foreseen by the last step; empty before the first.

  [[nodiscard]] bool guided() const { return spec.cfg != 1; }
  [[nodiscard]] bool finished() const { return done == trajectory.steps.size(); }
};

struct LatentObject {  // Adopted, or made of others.
  Size size;
  std::vector<float> values;
};

struct DecodeObject {
  Size size;
  std::vector<float> latent;
  std::vector<float> pixels;  // Planes; empty until decoded.
};

struct EncodeObject {
  Size size;
  std::vector<float> pixels;
  std::vector<float> latent;  // Empty until encoded.
};

struct Object {
  std::variant<WordsObject, SampleObject, LatentObject, DecodeObject, EncodeObject> is;
  std::string key;  // Of batches.
  Bytes held;

  [[nodiscard]] std::uint32_t steps() const;
  [[nodiscard]] std::uint32_t steps_done() const;
  [[nodiscard]] bool finished() const { return steps_done() == steps(); }
};

}  // namespace lares::diffusion
