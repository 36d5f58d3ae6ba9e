// What the scheduler, the ledger and the routes need to know of whoever asked: a plain value.
//
// A member is a person or device with a key. Its id stays the same for its life and is never given
// to another; 0 is `home`, which is everybody who asks on this machine without a key.
#pragma once

#include <cstdint>
#include <string>

#include "core/types.h"

namespace lares {

// 0 = no limit.
struct MemberLimits {
  std::uint32_t in_flight = 0;     // Jobs that run at once.
  std::uint32_t queued = 0;        // Jobs that wait at once.
  std::uint64_t tokens_a_day = 0;  // Prompt and output, over the last 24 hours.
  std::uint64_t device_seconds_a_day = 0;

  bool operator==(const MemberLimits&) const = default;
};

inline constexpr std::uint32_t kWeightOne = 1000;  // Permille.

struct MemberShare {
  MemberId id;
  std::string name = "home";
  std::uint32_t weight_permille = kWeightOne;  // 100..100000: its share, beside others' weights.
  MemberLimits limits;

  bool operator==(const MemberShare&) const = default;
};

}  // namespace lares
