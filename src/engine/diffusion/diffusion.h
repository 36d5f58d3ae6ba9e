// Pictures on ggml: the Stable Diffusion 1.x / Turbo family, one model folder at a time.
//
// Work is prepared, stepped, sliced and delivered. `prepare` checks a piece of work, sizes what it
// needs and answers with a handle; `step` begins one pass over the network for one or several
// pieces of work with equal batch keys; `slice` goes on with that pass for about so long and stops
// at a node of its graph; `deliver` copies a finished result out. Conditioning, latents and pixels
// stay behind their handles until they are released. A sample is as many passes as it has steps,
// everything else is one.
//
//   Handle words = engine.prepare(EncodeText{.text = "a red apple"})->handle;
//   engine.step({&words, 1});  while (!engine.slice(10ms)->done) {}
//
// A picture depends on its own seed, words and settings, never on what shares its batch, but for
// rounding. Plain values; nothing of ggml shows here. One thread, which owns the engine.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "engine/diffusion/config.h"

namespace lares::diffusion {

// How weights are kept. Activations are F32; with F16 and Q8 the inputs of products are rounded.
enum class Precision : std::uint8_t { F32, F16, Q8 };

// Longest way across a picture, in pixels, and most pictures of one batch.
inline constexpr std::uint32_t kPixelsMax = 2048;
inline constexpr std::uint32_t kBatchMax = 16;
inline constexpr double kGuidanceMax = 100;

struct LoadSpec {
  std::string folder;            // With model_index.json.
  std::string device{};          // "" or "cpu", or as ggml names it.
  std::string library_folder{};  // With libggml-cpu-*.so; "" = beside ggml itself.
  Precision precision = Precision::F16;
  std::uint32_t threads = 1;
  // No node of a graph takes longer, as far as can be foretold; 0 = they may. Convolutions,
  // products and attention are cut into bands of rows to hold it.
  Duration slice_max{};
  Bytes compute_max{std::int64_t{4} << 30U};  // Most memory of all graphs' buffers together.
  Bytes held_max{std::int64_t{1} << 30U};     // Most memory behind handles.
};

struct Size {
  std::uint32_t width = 0, height = 0;  // Pixels.
  constexpr bool operator==(const Size&) const = default;
};

struct ModelFacts {
  std::uint32_t latent_channels = 0;
  std::uint32_t factor =
      0;  // Pixels per latent pixel, each way; sizes are multiples of `multiple`.
  std::uint32_t multiple = 0;
  std::uint32_t prompt_tokens = 0;
  Size size{};  // What it was trained on.
  SamplerKind sampler = SamplerKind::Ddim;
  bool previews = false;
  Bytes weights;
};

// A thing kept beside the device: conditioning, a latent (finished or not), pixels.
using Handle = Id<struct DiffusionHandleTag, std::uint64_t>;

// RGB, row by row from the top.
struct Image {
  Size size{};
  std::vector<std::uint8_t> rgb;
};

// A latent as values, in the sampler's own scale: [channel][row][column].
struct LatentValues {
  Size size{};  // Of the picture, in pixels.
  std::vector<float> values;
};

// Goes on after so many steps were done, from the latent as it was then.
struct Resume {
  std::uint32_t step = 0;
  std::vector<float> latent;
};

struct EncodeText {
  std::string text;
};
struct Sample {
  Handle words;
  std::optional<Handle> negative{};  // Needed unless cfg is 1.
  std::uint64_t seed = 0;
  std::uint32_t steps = 20;
  double cfg = 3.5;  // 1 = no guidance, and half the work.
  std::optional<SamplerKind> sampler{};
  Size size{};                   // 0x0 = of `from`, or what the model was trained on.
  std::optional<Handle> from{};  // A clean latent to start from, ...
  double strength = 1;           // ... and how much of the way from noise is gone again.
  std::optional<Resume> resume{};
};
struct DecodeLatent {
  Handle latent;
};
struct EncodePixels {
  Image image;
};
using Work = std::variant<EncodeText, Sample, DecodeLatent, EncodePixels>;

struct Prepared {
  Handle handle;
  std::string batch_key;  // Work with equal keys can share a pass.
  std::uint32_t steps = 1;
  Bytes held{};     // Behind the handle.
  Bytes compute{};  // Of the graph that its passes run, for this work alone.
};

struct Stepped {
  Handle handle;
  std::uint32_t steps_done = 0;
  bool finished = false;
};

struct Sliced {
  bool done = false;               // The pass is over; `stepped` says what came of it.
  Duration took{};                 // This slice.
  Duration longest{};              // The longest stretch of it that could not be interrupted.
  std::vector<Stepped> stepped{};  // Without what was cancelled.
};

struct MemoryHeld {
  Bytes weights, held, compute;
};

class Engine {
 public:
  // Errors: of reading the folder (config.h, weights.h), Unavailable, TooLarge.
  static Result<std::unique_ptr<Engine>> load(const LoadSpec& spec);
  virtual ~Engine() = default;

  [[nodiscard]] virtual ModelFacts facts() const = 0;

  // Errors: Invalid, TooLarge (with the limit), NotFound (a handle), Conflict (a handle of another
  // kind, or one that is not finished).
  virtual Result<Prepared> prepare(const Work& work) = 0;
  // Errors: Conflict (a pass is running, or the keys differ), NotFound, Invalid (finished already),
  // TooLarge (more than kBatchMax).
  virtual Result<> step(std::span<const Handle> handles) = 0;
  // At least one stretch runs, however short the slice; 0 = to the end. Errors: Conflict (no pass),
  // Unavailable (the device failed; the pass is over and nothing advanced).
  virtual Result<Sliced> slice(Duration most) = 0;

  // What is behind a finished handle. Errors: NotFound, Conflict (not that kind, not finished).
  virtual Result<Image> deliver_image(Handle pixels) = 0;
  virtual Result<LatentValues> deliver_latent(Handle latent) = 0;  // Also an unfinished sample's.
  virtual Result<std::vector<float>> deliver_words(Handle words) = 0;
  virtual Result<std::vector<float>> deliver_values(Handle pixels) = 0;  // F32, about -1..1.
  // The clean latent as a sample foresees it, in linear colours; one pixel per latent pixel.
  virtual Result<Image> preview(Handle latent) = 0;

  // Latents made of latents, on the spot. `share` 0 = a, 1 = b. Errors: as deliver_latent, Invalid.
  virtual Result<Handle> adopt(const LatentValues& latent) = 0;
  virtual Result<Handle> resize(Handle latent, Size size) = 0;
  virtual Result<Handle> blend(Handle a, Handle b, double share) = 0;  // On the line between.
  virtual Result<Handle> walk(Handle a, Handle b, double share) = 0;   // On the arc between.

  // Of a running pass: nobody waits for it any more; if that was all of it, the next slice ends it.
  // Unknown handles are ignored.
  virtual void release(Handle handle) = 0;
  virtual Result<> set_threads(std::uint32_t threads) = 0;
  [[nodiscard]] virtual MemoryHeld memory() const = 0;
};

}  // namespace lares::diffusion
