// How long a pass over a network takes, by batch key and rows: learnt from the passes that were
// done, as recent means. Plain value; integers only.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "core/types.h"

namespace lares::sched {

class GraphCosts {
 public:
  // Keys and rows that are remembered; beyond, those used longest ago are forgotten.
  static constexpr std::size_t kMost = 256;

  void observe(std::uint64_t key, std::uint32_t rows, Duration took);
  // From the nearest number of rows that was seen, in proportion; of a key that never was, what
  // passes usually take.
  [[nodiscard]] Duration predict(std::uint64_t key, std::uint32_t rows) const;
  // One row of anything; a tenth of a second until something was seen.
  [[nodiscard]] Duration usual() const { return Duration(usual_ns_); }

 private:
  struct Seen {
    std::int64_t ns = 0;
    std::uint64_t used = 0;
  };
  std::map<std::pair<std::uint64_t, std::uint32_t>, Seen> seen_;
  std::int64_t usual_ns_ = 100'000'000;
  std::uint64_t count_ = 0;
};

}  // namespace lares::sched
