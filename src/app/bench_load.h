// What `lares bench` asks for, and when: the household's scenarios, or the shapes of past usage.
//
// Pure: time and the seed are arguments, so the same seed asks for the same things. One thread.
// Invariant: of a lane at most one request is under way, unless it sends by the clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "store/usage.h"

namespace lares::app {

// One request: who asks, as which class, for how much.
struct Ask {
  std::string member, cls;
  std::uint32_t words = 0;         // Of its own; a word is about a token.
  std::uint32_t shared_words = 0;  // Before them, the same for everybody.
  std::uint32_t output = 0;        // Tokens.
};

// How often somebody asks.
enum class Arrival : std::uint8_t {
  Closed,   // The next one so long after the answer, times `lanes`.
  Poisson,  // So many a second, whatever the server does.
};

struct Stream {
  Ask ask{};
  Arrival arrival = Arrival::Closed;
  std::uint32_t lanes = 1;  // Of Closed: requests in flight.
  Duration think{};         // Of Closed.
  double rate = 0;          // Of Poisson, a second.
};

struct Scenario {
  std::string name;
  std::vector<Stream> streams;
};

// evening, noisy, overload, long-doc, alone, shared-prefix.
std::span<const Scenario> household_scenarios();
const Scenario* find_scenario(std::string_view name);

// A request at a time of its own.
struct TimedAsk {
  Duration at{};
  Ask ask{};
};

// What a ledger's rows come to when their days are pressed into `length`. Members become letters,
// `a` for who asked most; only what wrote tokens counts. At most `most`: of more, every n-th.
std::vector<TimedAsk> asks_of_usage(std::span<const store::UsageRow> rows, Duration length,
                                    std::size_t most);

class Load {
 public:
  Load(const Scenario& scenario, Duration length, std::uint64_t seed);
  // `asks` in the order of their times.
  Load(std::vector<TimedAsk> asks, Duration length);

  struct Due {
    std::uint32_t lane = 0;  // For over().
    Ask ask{};
    std::uint64_t number = 0;  // Of all, from 0: makes its words unlike the others'.
  };
  // A request that is to be sent now, if there is one.
  std::optional<Due> due(Duration now);
  // When due() has another, if only time is missing; nothing: it waits for over(), or is at its
  // end.
  [[nodiscard]] std::optional<Duration> next() const;
  // The request of that lane came to its end.
  void over(std::uint32_t lane, Duration now, bool failed);
  [[nodiscard]] Duration length() const { return length_; }

 private:
  struct Lane {
    Ask ask{};
    Duration think{};
    double rate = 0;  // > 0: by the clock.
    std::optional<Duration> at{};
    std::uint64_t state = 0;  // Of its own chance.
  };
  [[nodiscard]] const Lane* earliest() const;

  std::vector<Lane> lanes_;
  std::vector<TimedAsk> timed_;
  std::size_t timed_next_ = 0;
  Duration length_;
  std::uint64_t count_ = 0;
};

// Words for a prompt; the same (seed, number) makes the same ones, and any two differ at once.
std::string own_words(std::uint64_t seed, std::uint64_t number, std::uint32_t words);
std::string shared_words(std::uint32_t words);

}  // namespace lares::app
