// Which of the journal's jobs are handed to the loop, and in which order: a window of each member's
// and class's oldest.
//
// The loop's scheduler decides who runs; but it holds a limited number of jobs, and nobody may fill
// it with a thousand of their own. Pure; time is an argument. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/types.h"

namespace lares::server {

class JobQueue {
 public:
  struct Limits {
    std::uint32_t lane_max = 8;  // Of one member's jobs of one class with the loop at once.
    std::uint32_t total = 128;   // Of everybody's.
  };
  struct Lane {
    MemberId member;
    std::string cls;
    auto operator<=>(const Lane&) const = default;
  };

  explicit JobQueue(Limits limits) : limits_(limits) {}

  // `seq` is the order of acceptance, and its place among the lane's.
  void add(std::int64_t seq, const Lane& lane);
  // The next one to hand over, of the lane with the fewest out, the oldest among such; nothing if
  // there is none or no room. It counts as out until finished().
  std::optional<std::int64_t> next(Instant now);
  void finished(const Lane& lane);
  // There was no room for it after all: back to its place, and nothing more of the lane until then.
  void put_back(std::int64_t seq, const Lane& lane, Instant until);
  // Whether it was waiting.
  bool remove(std::int64_t seq, const Lane& lane);

  // How many of its lane go before it.
  [[nodiscard]] std::uint32_t position(std::int64_t seq, const Lane& lane) const;
  [[nodiscard]] std::uint32_t waiting(MemberId member) const;

 private:
  struct State {
    std::set<std::int64_t> waiting;
    std::uint32_t out = 0;
    Instant paused_until{};
  };

  const Limits limits_;
  std::map<Lane, State> lanes_;
  std::uint32_t out_ = 0;
};

}  // namespace lares::server
