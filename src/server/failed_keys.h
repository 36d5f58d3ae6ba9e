// Slows down who tries keys: counts wrong ones by where they came from.
//
// Pure: time is an argument; one thread. Only wrong keys are counted and only their answers change:
// keys are too long to be guessed, so a right one always passes, and a misconfigured program behind
// a proxy does not lock out those beside it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/types.h"

namespace lares::server {

class FailedKeys {
 public:
  struct Options {
    std::uint32_t burst = 10;                 // Wrong keys at once from one source.
    Duration each = std::chrono::seconds(6);  // Then one in this time.
    std::uint32_t sources_max = 4096;         // Remembered; beyond, the oldest are forgotten.
  };
  explicit FailedKeys(Options options) : options_(options) {}

  // A wrong key came from `address`. Zero: say so. Else: too many; the time after which the next
  // one will be looked at.
  Duration note(std::string_view address, Instant now);

  [[nodiscard]] std::size_t sources() const { return until_.size(); }

 private:
  void make_room(Instant now);

  Options options_;
  std::map<std::string, Instant> until_;  // By source: when all its failures are paid off.
};

// What counts as one source: an IPv4 address, the first 64 bits of an IPv6 address (one household
// has all the rest), or else the text itself.
std::string source_of(std::string_view address);

}  // namespace lares::server
