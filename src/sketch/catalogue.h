// What the planner must know of the world, as plain values: models, what was measured, what is
// kept and cached. Whoever plans fills it in; the planner itself reads nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "sketch/decimal.h"
#include "sketch/signature.h"
#include "sketch/tree.h"

namespace lares::sketch {

// What a latent's numbers mean. Two spaces can agree in shape and still not mean the same picture,
// so spaces are compared by their digest alone; the name is for people.
struct Space {
  std::string name{};    // "sd"
  std::string family{};  // "KL-f8"
  std::uint32_t channels = 4;
  std::uint32_t factor = 8;  // Pixels of a side per cell.
  Decimal scale{}, shift{};

  [[nodiscard]] std::string digest() const;
  // "KL-f8, x0.18215"
  [[nodiscard]] std::string facts() const;
};
// "sd", "sdxl"; of others, the family and the first digits of the digest: "klf4-5726".
std::string space_name(const Space& space);

struct Model {
  std::string name{};
  ModelKind kind = ModelKind::Image;
  bool embeds = false;        // A chat model that makes embeddings as well.
  std::string digest{};       // Of its weights.
  bool warm = false;          // Its weights are on the device.
  std::uint32_t quality = 0;  // Among its kind; `want fine` takes the highest.
  Bytes weights{};
  std::vector<std::string> dtypes{};  // It may be used as these; the first if nothing is said.

  // Image models.
  Space space{};
  std::uint32_t multiple = 8;  // A picture's sides are multiples of it, in pixels.
  Size usual{512, 512};        // In pixels.
  std::string encoder{};       // "clip-l"; equal names mean equal conditioning.
  std::uint32_t cond_tokens = 77, cond_width = 768;
  std::uint32_t takes_width = 768;  // Of the conditioning that its U-Net reads.
  std::string sampler{"ddim"};
  std::uint32_t steps = 20, steps_draft = 0, steps_fine = 0;  // 0 = the usual number.
  Decimal cfg{75, 1};
  std::int64_t step_bytes_per_cell = 0;     // Working memory of a step, for one row.
  std::int64_t decode_bytes_per_pixel = 0;  // Of a decode or encode of pixels.
  std::uint32_t tile_least = 256;           // Pixels of the smallest tile's side.

  // Embedding models.
  std::uint32_t embedding_width = 0;

  [[nodiscard]] bool does(ModelKind what) const {
    return kind == what || (what == ModelKind::Embed && embeds);
  }
};

// How long one unit of work took: one step of one row ("step"), one picture ("decode", "latent"),
// one text ("encode", "embed"), one written token ("token").
struct Cost {
  std::string model{}, what{};
  Size size{};  // In pixels; 0x0 where size does not matter.
  Duration each{};
};

// Where a latent stands that is not clean.
struct Noise {
  std::uint32_t done = 0, steps = 0;
  std::string sampler{};
  std::int64_t cfg_millionths = 0;

  bool operator==(const Noise&) const = default;
};

struct Kept {
  std::string id{};
  Space space{};
  Size cells{};
  std::string dtype{"f32"};
  std::optional<Noise> noise{};
  bool expired = false;
};

// What is known of a run-time input before the sketch runs.
struct InputFact {
  std::string name{};
  std::string digest{};
  std::optional<Size> size{};  // Of a picture.
  std::uint32_t count = 0;     // Of a list; 0 = not known.
};

struct Catalogue {
  std::vector<Model> models{};
  std::vector<Cost> costs{};
  std::vector<Kept> kept{};
  std::vector<InputFact> inputs{};
  std::set<std::string> cached{};                      // Value keys.
  std::set<std::string> queued{};                      // Of the member's other jobs.
  std::map<std::string, std::uint32_t> checkpoints{};  // Trajectory key -> steps done.
  Bytes device_memory{};                               // 0 = no limit known.
  Bytes leased{};                                      // Of it, by latents that are held.
  std::string scope{}, engine{}, device{};             // Parts of the keys.

  [[nodiscard]] const Model* find(std::string_view name) const;
  // One unit of `what` at `size`, from the nearest measured size in proportion to the area. Nothing
  // if that was never measured.
  [[nodiscard]] std::optional<Duration> cost(const Model& model, std::string_view what,
                                             Size size) const;
};

// 32 hexadecimal digits: equal texts, equal digests.
std::string digest_of(std::string_view text);

}  // namespace lares::sketch
