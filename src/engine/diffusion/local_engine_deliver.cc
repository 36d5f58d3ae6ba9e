// The part of LocalEngine that hands things out, and makes latents of latents.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/diffusion/latent_math.h"
#include "engine/diffusion/local_engine.h"

namespace lares::diffusion {

Result<std::vector<float>> LocalEngine::deliver_words(Handle words) {
  return *TRY(words_of(words));
}

Result<std::vector<float>> LocalEngine::deliver_values(Handle pixels) {
  const Object* object = TRY(find(pixels));
  const auto* decode = std::get_if<DecodeObject>(&object->is);
  if (decode == nullptr || decode->pixels.empty()) {
    return fail(Code::Conflict, fmt::format("{} holds no finished pixels", pixels.value));
  }
  return decode->pixels;
}

Result<Image> LocalEngine::deliver_image(Handle pixels) {
  const std::vector<float> values = TRY(deliver_values(pixels));
  const Size size = std::get<DecodeObject>(objects_.at(pixels).is).size;
  return Image{.size = size, .rgb = bytes_of_pixels(values)};
}

Result<LatentValues> LocalEngine::deliver_latent(Handle latent) {
  const Object* object = TRY(find(latent));
  if (const auto* sample = std::get_if<SampleObject>(&object->is)) {
    return LatentValues{sample->size, sample->x};
  }
  return clean_latent(latent);
}

Result<Image> LocalEngine::preview(Handle latent) {
  if (!config_.latent_rgb) {
    return fail(Code::Unsupported, "the model has no vae/latent_rgb.json to preview with");
  }
  const Object* object = TRY(find(latent));
  const auto* sample = std::get_if<SampleObject>(&object->is);
  if (sample != nullptr && !sample->finished() && sample->clean.empty()) {
    return fail(Code::Conflict, fmt::format("{} has made no step yet", latent.value));
  }
  const LatentValues clean = sample != nullptr && !sample->finished()
                                 ? LatentValues{sample->size, sample->clean}
                                 : TRY(clean_latent(latent));
  const LatentSize size = latent_size(clean.size);
  return Image{.size = {size.width, size.height},
               .rgb = projected(*config_.latent_rgb, clean.values)};
}

Result<Handle> LocalEngine::add_latent(Size size, std::vector<float> values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
  return add({.is = LatentObject{.size = size, .values = std::move(values)},
              .key = "latent",
              .held = Bytes{bytes}});
}

Result<Handle> LocalEngine::adopt(const LatentValues& latent) {
  TRY_VOID(check_size(latent.size));
  if (latent.values.size() != latent_values(latent.size)) {
    return fail(Code::Invalid,
                fmt::format("a latent of {}x{} pixels has {} values, not {}", latent.size.width,
                            latent.size.height, latent_values(latent.size), latent.values.size()));
  }
  if (!std::ranges::all_of(latent.values, [](float v) { return std::isfinite(v); })) {
    return fail(Code::Corrupt, "a latent with values that are not finite");
  }
  return add_latent(latent.size, latent.values);
}

Result<Handle> LocalEngine::resize(Handle latent, Size size) {
  const LatentValues from = TRY(clean_latent(latent));
  TRY_VOID(check_size(size));
  const LatentSize before = latent_size(from.size), after = latent_size(size);
  return add_latent(size, resized(from.values, config_.vae.latent_channels, before.width,
                                  before.height, after.width, after.height));
}

Result<std::pair<LatentValues, LatentValues>> LocalEngine::pair_of(Handle a, Handle b,
                                                                   double share) {
  if (!(share >= 0 && share <= 1)) {
    return fail(Code::Invalid, fmt::format("a share of {}; it must be from 0 to 1", share));
  }
  std::pair<LatentValues, LatentValues> both{TRY(clean_latent(a)), TRY(clean_latent(b))};
  if (both.first.size == both.second.size) return both;
  return fail(Code::Invalid, fmt::format("latents of {}x{} and {}x{} pixels; resize one first",
                                         both.first.size.width, both.first.size.height,
                                         both.second.size.width, both.second.size.height));
}

Result<Handle> LocalEngine::blend(Handle a, Handle b, double share) {
  const auto both = TRY(pair_of(a, b, share));
  return add_latent(both.first.size, blended(both.first.values, both.second.values, share));
}

Result<Handle> LocalEngine::walk(Handle a, Handle b, double share) {
  const auto both = TRY(pair_of(a, b, share));
  return add_latent(both.first.size, walked(both.first.values, both.second.values, share));
}

}  // namespace lares::diffusion
