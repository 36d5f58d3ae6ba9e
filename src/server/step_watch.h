// Says when a step has taken so long that its worker must be considered hung.
//
// Learns how long steps of each size take (an exponential average per power of two of tokens), and
// allows ten times that and at least ten seconds. Before anything is known it allows ten minutes: a
// large model's first step on a small machine is slow, not hung. Pure; owned by the loop thread.
#pragma once

#include <array>
#include <cstdint>

#include "core/types.h"

namespace lares::server {

class StepWatch {
 public:
  void observe(std::uint32_t tokens, Duration took);
  [[nodiscard]] Duration limit(std::uint32_t tokens) const;

 private:
  std::array<double, 17> mean_ns_{};  // By bit width of tokens; 0 = not seen.
};

}  // namespace lares::server
