#include "engine/diffusion/local_engine.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/text.h"
#include "engine/diffusion/latent_math.h"
#include "engine/diffusion/noise.h"

namespace lares::diffusion {

Result<std::unique_ptr<Engine>> Engine::load(const LoadSpec& spec) {
  return LocalEngine::load(spec);
}

Result<std::unique_ptr<Engine>> LocalEngine::load(const LoadSpec& spec) {
  FolderConfig config = TRY(read_folder(spec.folder));
  Tokenizer tokenizer =
      TRY(Tokenizer::open(spec.folder + "/tokenizer", config.tokenizer, config.text.vocabulary));
  Networks networks = TRY(Networks::load(config, spec));
  return std::unique_ptr<Engine>(
      new LocalEngine(std::move(config), spec, std::move(tokenizer), std::move(networks)));
}

LocalEngine::LocalEngine(FolderConfig config, LoadSpec spec, Tokenizer tokenizer, Networks networks)
    : config_(std::move(config)),
      spec_(std::move(spec)),
      tokenizer_(std::move(tokenizer)),
      networks_(std::move(networks)) {}

ModelFacts LocalEngine::facts() const {
  const std::uint32_t factor = config_.vae.factor();
  const std::uint32_t side = config_.unet.sample_size * factor;
  return {.latent_channels = config_.vae.latent_channels,
          .factor = factor,
          .multiple = factor * networks_.unet().multiple(),
          .prompt_tokens = config_.tokenizer.length,
          .size = {side, side},
          .sampler = config_.schedule.sampler,
          .previews = config_.latent_rgb.has_value(),
          .weights = networks_.weights()};
}

MemoryHeld LocalEngine::memory() const {
  return {.weights = networks_.weights(), .held = held_, .compute = networks_.compute()};
}

Result<> LocalEngine::set_threads(std::uint32_t threads) {
  return networks_.device().set_threads(threads);
}

Result<> LocalEngine::check_size(Size size) const {
  const std::uint32_t multiple = facts().multiple;
  for (const std::uint32_t side : {size.width, size.height}) {
    if (side > kPixelsMax) {
      return fail(Code::TooLarge, fmt::format("{}x{} pixels; at most {} each way", size.width,
                                              size.height, kPixelsMax));
    }
    if (side == 0 || side % multiple != 0) {
      return fail(Code::Invalid, fmt::format("{}x{} pixels; both must be multiples of {}",
                                             size.width, size.height, multiple));
    }
  }
  return {};
}

LatentSize LocalEngine::latent_size(Size size) const {
  return {size.width / config_.vae.factor(), size.height / config_.vae.factor()};
}

std::size_t LocalEngine::latent_values(Size size) const {
  const LatentSize latent = latent_size(size);
  return std::size_t{config_.vae.latent_channels} * latent.width * latent.height;
}

Result<Object*> LocalEngine::find(Handle handle) {
  const auto found = objects_.find(handle);
  if (found != objects_.end()) return &found->second;
  return fail(Code::NotFound, fmt::format("nothing is kept as {}", handle.value));
}

Result<Handle> LocalEngine::add(Object object) {
  if (held_ + object.held > spec_.held_max) {
    return fail(
        Code::TooLarge,
        fmt::format("{} more would be held, {} are; at most {}", format_bytes(object.held.count),
                    format_bytes(held_.count), format_bytes(spec_.held_max.count)));
  }
  held_ += object.held;
  const Handle handle{next_handle_++};
  objects_.emplace(handle, std::move(object));
  return handle;
}

void LocalEngine::release(Handle handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return;
  held_ -= found->second.held;
  objects_.erase(found);
  if (!pass_) return;
  for (auto& running : pass_->handles) {
    if (running == handle) running.reset();
  }
}

Result<Prepared> LocalEngine::prepare(const Work& work) {
  return std::visit([this](const auto& one) { return prepare_one(one); }, work);
}

Result<Prepared> LocalEngine::added(Object object, NetworkGraph* graph) {
  Prepared out{.handle = {}, .batch_key = object.key, .steps = object.steps(), .held = object.held};
  out.steps -= object.steps_done();
  out.compute = graph->graph->bytes();
  out.handle = TRY(add(std::move(object)));
  return out;
}

Result<Prepared> LocalEngine::prepare_one(const EncodeText& work) {
  WordsObject words{.ids = TRY(tokenizer_.encode(work.text)), .values = nullptr};
  const std::size_t values = words.ids.size() * config_.text.width;
  Object object{.is = std::move(words),
                .key = "text",
                .held = Bytes{static_cast<std::int64_t>(values * sizeof(float))}};
  return added(std::move(object), TRY(networks_.text(1)));
}

Result<SharedValues> LocalEngine::words_of(Handle handle) {
  const Object* object = TRY(find(handle));
  const auto* words = std::get_if<WordsObject>(&object->is);
  if (words == nullptr) {
    return fail(Code::Conflict, fmt::format("{} holds no conditioning", handle.value));
  }
  if (words->values == nullptr) {
    return fail(Code::Conflict, fmt::format("the words of {} are not encoded yet", handle.value));
  }
  return words->values;
}

Result<LatentValues> LocalEngine::clean_latent(Handle handle) {
  const Object* object = TRY(find(handle));
  if (object->finished()) {
    if (const auto* sample = std::get_if<SampleObject>(&object->is)) {
      return LatentValues{sample->size, sample->x};
    }
    if (const auto* latent = std::get_if<LatentObject>(&object->is)) {
      return LatentValues{latent->size, latent->values};
    }
    if (const auto* encoded = std::get_if<EncodeObject>(&object->is)) {
      return LatentValues{encoded->size, encoded->latent};
    }
  }
  return fail(Code::Conflict, fmt::format("{} holds no finished latent", handle.value));
}

// Everything of it but where x starts.
Result<SampleObject> LocalEngine::make_sample(const Sample& work) {
  SampleObject sample{.spec = work, .size = work.size, .words = nullptr, .negative = nullptr};
  if (!(work.cfg >= 0 && work.cfg <= kGuidanceMax)) {
    return fail(Code::Invalid, fmt::format("cfg {}: must be from 0 to {}", work.cfg, kGuidanceMax));
  }
  sample.words = TRY(words_of(work.words));
  if (sample.guided()) {
    if (!work.negative) return fail(Code::Invalid, "cfg other than 1 needs the negative words");
    sample.negative = TRY(words_of(*work.negative));
  }
  if (work.size == Size{} && work.from) sample.size = TRY(clean_latent(*work.from)).size;
  if (sample.size == Size{}) sample.size = facts().size;
  TRY_VOID(check_size(sample.size));
  sample.trajectory =
      TRY(make_trajectory(config_.schedule, work.sampler.value_or(config_.schedule.sampler),
                          work.steps, work.from.has_value(), work.strength));
  if (work.from) {
    LatentValues start = TRY(clean_latent(*work.from));
    if (start.size != sample.size) {
      return fail(
          Code::Invalid,
          fmt::format("starts from {}x{} pixels and makes {}x{}; resize the latent first",
                      start.size.width, start.size.height, sample.size.width, sample.size.height));
    }
    sample.x = std::move(start.values);
  }
  return sample;
}

// Noise, a latent with noise, or where a sample was before.
Result<> LocalEngine::start_latent(SampleObject& sample) const {
  const std::size_t values = latent_values(sample.size);
  if (sample.spec.resume) {
    const Resume& resume = *sample.spec.resume;
    if (resume.latent.size() != values || resume.step >= sample.trajectory.steps.size()) {
      return fail(Code::Invalid, fmt::format("goes on with {} values from step {}, where there are "
                                             "{} values and {} steps",
                                             resume.latent.size(), resume.step, values,
                                             sample.trajectory.steps.size()));
    }
    if (!std::ranges::all_of(resume.latent, [](float v) { return std::isfinite(v); })) {
      return fail(Code::Corrupt, "goes on from a latent with values that are not finite");
    }
    sample.x = resume.latent;
    sample.done = resume.step;
    sample.spec.resume->latent.clear();
    return {};
  }
  std::vector<float> noise(values);
  fill_noise(sample.spec.seed, kStartDraw, noise);
  sample.x.resize(values);  // Zeros, unless it starts from a latent.
  const auto of_clean = static_cast<float>(sample.trajectory.start_clean);
  const auto of_noise = static_cast<float>(sample.trajectory.start_noise);
  for (std::size_t i = 0; i < values; ++i) {
    sample.x[i] = of_clean * sample.x[i] + of_noise * noise[i];
  }
  return {};
}

Result<Prepared> LocalEngine::prepare_one(const Sample& work) {
  SampleObject sample = TRY(make_sample(work));
  TRY_VOID(start_latent(sample));
  const LatentSize size = latent_size(sample.size);
  const bool guided = sample.guided();
  // The picture is going to be decoded: that this fits is known before the first step.
  TRY(networks_.decoder(size));
  NetworkGraph* graph = TRY(networks_.unet(size, guided ? 2 : 1));
  const std::size_t values = 2 * latent_values(sample.size);
  Object object{
      .is = std::move(sample),
      .key = fmt::format("sample {}x{} {}", size.width, size.height, guided ? "guided" : "plain"),
      .held = Bytes{static_cast<std::int64_t>(values * sizeof(float))}};
  return added(std::move(object), graph);
}

Result<Prepared> LocalEngine::prepare_one(const DecodeLatent& work) {
  LatentValues latent = TRY(clean_latent(work.latent));
  const LatentSize size = latent_size(latent.size);
  NetworkGraph* graph = TRY(networks_.decoder(size));
  const std::size_t values =
      latent.values.size() + std::size_t{3} * latent.size.width * latent.size.height;
  Object object{
      .is = DecodeObject{.size = latent.size, .latent = std::move(latent.values), .pixels = {}},
      .key = fmt::format("decode {}x{}", size.width, size.height),
      .held = Bytes{static_cast<std::int64_t>(values * sizeof(float))}};
  return added(std::move(object), graph);
}

Result<Prepared> LocalEngine::prepare_one(const EncodePixels& work) {
  const Size size = work.image.size;
  TRY_VOID(check_size(size));
  const std::size_t bytes = std::size_t{3} * size.width * size.height;
  if (work.image.rgb.size() != bytes) {
    return fail(Code::Invalid, fmt::format("{}x{} pixels have {} bytes, not {}", size.width,
                                           size.height, bytes, work.image.rgb.size()));
  }
  const LatentSize latent = latent_size(size);
  NetworkGraph* graph = TRY(networks_.encoder(latent));
  const std::size_t values = bytes + latent_values(size);
  Object object{
      .is = EncodeObject{.size = size, .pixels = pixels_of_bytes(work.image.rgb), .latent = {}},
      .key = fmt::format("encode {}x{}", latent.width, latent.height),
      .held = Bytes{static_cast<std::int64_t>(values * sizeof(float))}};
  return added(std::move(object), graph);
}

}  // namespace lares::diffusion
