// A latent that somebody keeps, as the journal has it: plain values.
//
// What its numbers mean is written beside them, so that they can be taken up by any model of the
// same space, years later. Who reads it is for the server to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"

namespace lares::store {

// Where on its schedule a latent stands that is not clean, and the noise that it goes on with.
struct LatentNoise {
  std::uint32_t done = 0, steps = 0;
  std::string sampler{};
  std::int64_t cfg_millionths = 0;
  std::uint64_t seed = 0;
  bool operator==(const LatentNoise&) const = default;
};

struct LatentRecord {
  std::string id{};  // Behind "lat:"; nobody can guess it.
  MemberId member_id{};
  std::string name{};  // What its sketch called it.
  // Its space, and its size in cells.
  std::string space{}, family{};
  std::uint32_t channels = 0, factor = 0;
  std::int64_t scale_millionths = 0, shift_millionths = 0;
  std::uint32_t width = 0, height = 0;
  std::string dtype{"f32"};  // Of its bytes: "f32" or "f16", little endian, channel by channel.
  std::optional<LatentNoise> noise{};
  std::int64_t created_unix_ms = 0, expires_unix_ms = 0;
  std::uint64_t size = 0;          // Bytes.
  std::int64_t gone_unix_ms = 0;   // Expired or taken away: its bytes are not there; 0 = they are.
  std::vector<MemberId> shared{};  // Who else may use it.
};

}  // namespace lares::store
