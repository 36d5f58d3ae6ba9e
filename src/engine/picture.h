// Pictures as a device worker makes them: what it can be asked for and what comes back, as plain
// values. Part of the contract of engine.h.
//
// Work is prepared under a handle that the server chooses, so that what uses it can be sent before
// it is answered. Words, samples, decodes and encodes are done in passes over a network: a Run
// names the handles that take part and goes on with their pass for about one slice. Everything else
// (adopt, resize, blend) is done when it is prepared. What is behind a handle stays beside the
// device until it is released, or the model is unloaded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/types.h"

namespace lares::engine {

// Most pieces of work in one pass.
inline constexpr std::uint32_t kPassMax = 16;

using Handle = Id<struct PictureHandleTag, std::uint64_t>;

struct PictureSize {
  std::uint32_t width = 0, height = 0;  // Pixels.
  constexpr bool operator==(const PictureSize&) const = default;
};

// RGB, row by row from the top.
struct Picture {
  PictureSize size{};
  std::vector<std::uint8_t> rgb{};
};

// A latent as values, in the sampler's own scale: [channel][row][column].
struct LatentCopy {
  PictureSize size{};  // Of the picture, in pixels.
  std::vector<float> values{};
};

// --- Done in passes ------------------------------------------------------------------------------

struct EncodeText {
  std::string text{};
};
// An unfinished sample that goes on after so many steps: one that is held, or a copy of it.
struct GoOn {
  std::uint32_t step = 0;
  std::optional<Handle> held{};
  std::vector<float> copy{};
};
struct SampleLatent {
  Handle words{};
  std::optional<Handle> negative{};  // Needed unless cfg is 1.
  std::uint64_t seed = 0;
  std::uint32_t steps = 20;
  double cfg = 1;
  std::string sampler{};         // "ddim", "euler", "euler_a", "lcm"; "" = the model's own.
  PictureSize size{};            // 0x0 = of `from`, or what the model was trained on.
  std::optional<Handle> from{};  // A clean latent to start from, ...
  double strength = 1;           // ... and the part of the steps that is run.
  std::optional<GoOn> go_on{};
};
struct DecodeLatent {
  Handle latent{};
};
struct EncodePicture {
  std::optional<Handle> pixels{};  // A decoded latent; else `picture`.
  Picture picture{};
  PictureSize size{};  // Scaled to it first.
};

// --- Done at once --------------------------------------------------------------------------------

struct AdoptLatent {
  LatentCopy latent{};
};
struct ResizeLatent {
  Handle latent{};
  PictureSize size{};
};
struct BlendLatents {
  Handle a{}, b{};
  double share = 0.5;  // 0 = a, 1 = b.
  bool arc = false;    // On the arc between them, not the line.
};

using PictureWork = std::variant<EncodeText, SampleLatent, DecodeLatent, EncodePicture, AdoptLatent,
                                 ResizeLatent, BlendLatents>;

struct Prepare {
  ModelId model{};
  Handle handle{};  // Not in use.
  PictureWork work{};
};

struct Prepared {
  ModelId model{};
  Handle handle{};
  std::uint32_t passes = 0;  // That it takes; 0 = it is done.
  Bytes held{};              // Behind the handle.
  Bytes compute{};           // Of the graph that its passes run.
};

// How one piece of work stands after a pass.
struct PassStep {
  Handle handle{};
  std::uint32_t steps_done = 0;
  bool finished = false;
};

enum class Deliverable : std::uint8_t {
  Pixels,   // Of a decode.
  Latent,   // Also an unfinished sample's.
  Preview,  // The clean latent as a sample foresees it, in colours; one pixel per cell.
};

struct Deliver {
  ModelId model{};
  Handle handle{};
  Deliverable what = Deliverable::Pixels;
};

struct Delivered {
  ModelId model{};
  Handle handle{};
  Deliverable what = Deliverable::Pixels;
  Picture picture{};
  LatentCopy latent{};
};

// What a planner must know of an image model, read without opening a tensor of it.
struct PictureFacts {
  std::string digest{};  // Of its weights.
  std::string space{}, family{};
  std::uint32_t channels = 0, factor = 0;  // Of latents; pixels of a side per cell.
  std::int64_t scale_millionths = 0, shift_millionths = 0;
  std::uint32_t multiple = 0;  // A picture's sides are multiples of it, in pixels.
  PictureSize usual{};
  std::string encoder{};  // Equal names mean equal conditioning.
  std::uint32_t prompt_tokens = 0, prompt_width = 0, takes_width = 0;
  std::string sampler{};
  std::uint32_t steps = 0, steps_draft = 0, steps_fine = 0;
  std::int64_t cfg_millionths = 0;
};

}  // namespace lares::engine
