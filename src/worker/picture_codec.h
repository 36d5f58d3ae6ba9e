// How the values of engine/picture.h are written as bytes; see worker/codec.h. A choice of work is
// its index and then the work itself.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/archive.h"
#include "engine/picture.h"

namespace lares {

template <class Archive, class... Fields>
void archive_all(Archive& archive, Fields&... all) {
  (archive(all), ...);
}

// An enumerator, refused if it lies beyond `last`: a value outside the enumeration must not get in.
template <class Archive, class Enum>
void archive_enum(Archive& archive, Enum& value, Enum last) {
  archive(value);
  if constexpr (std::is_same_v<Archive, ArchiveReader>) {
    if (value > last) archive.refuse();
  }
}

}  // namespace lares

namespace lares::engine {

template <class Archive>
void fields(Archive& a, PictureSize& size) {
  archive_all(a, size.width, size.height);
}

template <class Archive>
void fields(Archive& a, Picture& picture) {
  archive_all(a, picture.size, picture.rgb);
}

template <class Archive>
void fields(Archive& a, LatentCopy& latent) {
  archive_all(a, latent.size, latent.values);
}

template <class Archive>
void fields(Archive& a, EncodeText& work) {
  a(work.text);
}

template <class Archive>
void fields(Archive& a, GoOn& go_on) {
  archive_all(a, go_on.step, go_on.held, go_on.copy);
}

template <class Archive>
void fields(Archive& a, SampleLatent& work) {
  archive_all(a, work.words, work.negative, work.seed, work.steps, work.cfg, work.sampler);
  archive_all(a, work.size, work.from, work.strength, work.go_on);
}

template <class Archive>
void fields(Archive& a, DecodeLatent& work) {
  a(work.latent);
}

template <class Archive>
void fields(Archive& a, EncodePicture& work) {
  archive_all(a, work.pixels, work.picture, work.size);
}

template <class Archive>
void fields(Archive& a, AdoptLatent& work) {
  a(work.latent);
}

template <class Archive>
void fields(Archive& a, ResizeLatent& work) {
  archive_all(a, work.latent, work.size);
}

template <class Archive>
void fields(Archive& a, BlendLatents& work) {
  archive_all(a, work.a, work.b, work.share, work.arc);
}

inline void fields(ArchiveWriter& a, PictureWork& work) {
  a(static_cast<std::uint8_t>(work.index()));
  std::visit([&a](const auto& one) { a(one); }, work);
}

template <std::size_t Index = 0>
void read_work(ArchiveReader& a, std::size_t index, PictureWork& work) {
  if constexpr (Index == std::variant_size_v<PictureWork>) {
    a.refuse();
  } else if (index != Index) {
    read_work<Index + 1>(a, index, work);
  } else {
    a(work.emplace<Index>());
  }
}

inline void fields(ArchiveReader& a, PictureWork& work) {
  std::uint8_t index = 0;
  a(index);
  read_work(a, index, work);
}

template <class Archive>
void fields(Archive& a, Prepare& prepare) {
  archive_all(a, prepare.model, prepare.handle, prepare.work);
}

template <class Archive>
void fields(Archive& a, Prepared& prepared) {
  archive_all(a, prepared.model, prepared.handle, prepared.passes, prepared.held, prepared.compute);
}

template <class Archive>
void fields(Archive& a, PassStep& step) {
  archive_all(a, step.handle, step.steps_done, step.finished);
}

template <class Archive>
void fields(Archive& a, Deliver& deliver) {
  archive_all(a, deliver.model, deliver.handle);
  archive_enum(a, deliver.what, Deliverable::Preview);
}

template <class Archive>
void fields(Archive& a, Delivered& delivered) {
  archive_all(a, delivered.model, delivered.handle);
  archive_enum(a, delivered.what, Deliverable::Preview);
  archive_all(a, delivered.picture, delivered.latent);
}

template <class Archive>
void fields(Archive& a, PictureFacts& facts) {
  archive_all(a, facts.digest, facts.space, facts.family, facts.channels, facts.factor);
  archive_all(a, facts.scale_millionths, facts.shift_millionths, facts.multiple, facts.usual);
  archive_all(a, facts.encoder, facts.prompt_tokens, facts.prompt_width, facts.takes_width);
  archive_all(a, facts.sampler, facts.steps, facts.steps_draft, facts.steps_fine);
  a(facts.cfg_millionths);
}

}  // namespace lares::engine
