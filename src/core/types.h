// Strong types: identities, amounts and time, so that none is mistaken for another.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>

namespace lares {

// An identity. Compares and hashes, nothing else; 0 is a valid value.
template <class Tag, class Rep = std::uint32_t>
struct Id {
  using rep = Rep;
  Rep value{};

  constexpr auto operator<=>(const Id&) const = default;
};

using JobId = Id<struct JobTag, std::uint64_t>;    // One accepted piece of work.
using TaskId = Id<struct TaskTag, std::uint64_t>;  // A group of one member's jobs; 0 is "none".
using RunId = Id<struct RunTag, std::uint64_t>;    // One step sent to a device.
using MemberId = Id<struct MemberTag>;             // A person or device with a key.
using ClassId = Id<struct ClassTag>;               // Index into the configured classes.
using ModelId = Id<struct ModelTag>;               // Index into the served models.
using DeviceId = Id<struct DeviceTag>;             // Index into the devices.
using SeqId = Id<struct SeqTag>;                   // KV state of one generation, per model: 0..n-1.
using StateId = Id<struct StateTag, std::uint64_t>;  // KV copied to the host's memory; 0 is "none".

// An amount of one thing. Adds to and compares with its own kind only.
template <class Tag>
struct Amount {
  std::int64_t count = 0;

  constexpr auto operator<=>(const Amount&) const = default;
  constexpr Amount& operator+=(Amount other) {
    count += other.count;
    return *this;
  }
  constexpr Amount& operator-=(Amount other) {
    count -= other.count;
    return *this;
  }
  friend constexpr Amount operator+(Amount a, Amount b) { return Amount{a.count + b.count}; }
  friend constexpr Amount operator-(Amount a, Amount b) { return Amount{a.count - b.count}; }
};

using Bytes = Amount<struct BytesTag>;
using Tokens = Amount<struct TokensTag>;

using Duration = std::chrono::nanoseconds;

// The one timeline. It has no now(): only a driver (server loop, simulator, test) reads a clock and
// passes the time in, so pure code cannot, at compile time.
struct Timeline {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<Timeline>;
  static constexpr bool is_steady = true;
};
using Instant = Timeline::time_point;

}  // namespace lares

template <class Tag, class Rep>
struct std::hash<lares::Id<Tag, Rep>> {
  std::size_t operator()(lares::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
