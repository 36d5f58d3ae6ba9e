// What each member used over the last 24 hours, and whether that is all it may use.
//
// Kept in quarters of an hour: a request counts from when it was accepted until the quarter that it
// was accepted in is a day old. Time is an argument: milliseconds since 1970.
//
// One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/member.h"
#include "store/usage.h"

namespace lares::server {

class DayUsage {
 public:
  void add(MemberId member, std::int64_t unix_ms, store::DeviceUse use);

  struct Over {
    std::string what;  // "1,200 of 1,000 tokens", for a message.
    Duration wait{};   // Until enough of it is a day old, if nothing else is used meanwhile.
  };
  // Nothing while the member is below its limits. `under_way` is used, and in no row yet.
  [[nodiscard]] std::optional<Over> over(MemberId member, const MemberLimits& limits,
                                         store::DeviceUse under_way, std::int64_t now_ms) const;

 private:
  struct Quarter {
    std::int64_t number = 0;  // Since 1970.
    store::DeviceUse use;
  };
  std::unordered_map<MemberId, std::deque<Quarter>> members_;
};

}  // namespace lares::server
