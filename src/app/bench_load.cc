#include "app/bench_load.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace lares::app {
namespace {

using std::chrono::seconds;

constexpr std::array<std::string_view, 44> kWords{
    "the",    "kitchen", "light",  "garden", "water",  "morning", "window",  "table",  "winter",
    "summer", "bread",   "coffee", "letter", "music",  "school",  "train",   "river",  "stone",
    "paper",  "yellow",  "little", "quiet",  "open",   "close",   "under",   "over",   "between",
    "market", "dinner",  "child",  "friend", "number", "story",   "picture", "answer", "question",
    "minute", "evening", "season", "house",  "door",   "song",    "bird",    "road"};
// A server that refuses everything is not asked as fast as it refuses.
constexpr Duration kAfterFailure = std::chrono::milliseconds(200);

// SplitMix64: a number from a counter, the same everywhere.
std::uint64_t next_number(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

// Time until the next of `rate` arrivals a second.
Duration next_gap(std::uint64_t& state, double rate) {
  const double uniform = static_cast<double>(next_number(state) >> 11U) * 0x1p-53;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(-std::log(1 - uniform) / rate));
}

Stream closed(std::string member, std::string cls, Duration think, std::uint32_t words,
              std::uint32_t output, std::uint32_t lanes = 1) {
  return {
      .ask = {std::move(member), std::move(cls), words, 0, output}, .lanes = lanes, .think = think};
}

std::vector<Scenario> make_scenarios() {
  // The same as bench/household_load.py, whose figures BENCHMARKS.md holds.
  std::vector<Scenario> all;
  all.push_back({"evening",
                 {{.ask = {"ana", "voice", 30, 0, 16}, .arrival = Arrival::Poisson, .rate = 0.25},
                  closed("ben", "chat", seconds(2), 150, 64),
                  closed("cleo", "chat", seconds(2), 150, 64),
                  closed("dan", "agent", {}, 500, 48),
                  closed("eve", "maintenance", {}, 3500, 64)}});
  all.push_back(
      {"noisy",
       {closed("ana", "chat", seconds(1), 100, 32), closed("dan", "agent", {}, 300, 64, 16)}});
  all.push_back({"overload",
                 {closed("ana", "chat", {}, 200, 64, 4), closed("ben", "chat", {}, 200, 64, 16)}});
  all.push_back(
      {"long-doc",
       {closed("ana", "chat", {}, 60, 200), closed("eve", "maintenance", seconds(3), 5000, 16)}});
  all.push_back({"alone", {closed("ana", "chat", {}, 100, 64)}});
  Scenario shared{"shared-prefix",
                  {closed("ana", "chat", {}, 20, 32, 4), closed("ben", "chat", {}, 20, 32, 4)}};
  for (Stream& stream : shared.streams) stream.ask.shared_words = 1200;
  all.push_back(std::move(shared));
  return all;
}

// a ... z, aa, ab ...
std::string letters(std::size_t number) {
  std::string out;
  for (++number; number > 0; number = (number - 1) / 26)
    out.insert(out.begin(), static_cast<char>('a' + (number - 1) % 26));
  return out;
}

std::map<std::uint32_t, std::string> letters_of(std::span<const store::UsageRow> rows) {
  std::map<std::uint32_t, std::size_t> counts;
  for (const store::UsageRow& row : rows) ++counts[row.member_id.value];
  std::vector<std::pair<std::uint32_t, std::size_t>> order(counts.begin(), counts.end());
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::map<std::uint32_t, std::string> names;
  for (std::size_t i = 0; i < order.size(); ++i) names[order[i].first] = letters(i);
  return names;
}

std::string words_of(std::uint64_t state, std::uint32_t words) {
  std::string out;
  for (std::uint32_t i = 0; i < words; ++i) {
    if (i > 0) out += ' ';
    out += kWords[next_number(state) % kWords.size()];
  }
  return out;
}

}  // namespace

std::span<const Scenario> household_scenarios() {
  static const std::vector<Scenario> all = make_scenarios();
  return all;
}

const Scenario* find_scenario(std::string_view name) {
  const auto all = household_scenarios();
  const auto found = std::ranges::find(all, name, &Scenario::name);
  return found == all.end() ? nullptr : &*found;
}

std::vector<TimedAsk> asks_of_usage(std::span<const store::UsageRow> rows, Duration length,
                                    std::size_t most) {
  std::vector<store::UsageRow> kept;
  for (const store::UsageRow& row : rows) {
    if (row.prompt_tokens > 0 && row.output_tokens > 0) kept.push_back(row);
  }
  std::ranges::stable_sort(kept, {}, &store::UsageRow::accepted_unix_ms);
  const auto names = letters_of(kept);
  const std::size_t count = std::min(kept.size(), most);
  std::vector<TimedAsk> asks;
  if (count == 0) return asks;
  const std::int64_t from = kept.front().accepted_unix_ms;
  const auto span = static_cast<double>(kept.back().accepted_unix_ms - from + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const store::UsageRow& row = kept[i * kept.size() / count];
    const double part = static_cast<double>(row.accepted_unix_ms - from) / span;
    asks.push_back(
        {.at = std::chrono::duration_cast<Duration>(part * std::chrono::duration<double>(length)),
         .ask = {names.at(row.member_id.value), row.cls, row.prompt_tokens, 0, row.output_tokens}});
  }
  return asks;
}

Load::Load(const Scenario& scenario, Duration length, std::uint64_t seed) : length_(length) {
  for (const Stream& stream : scenario.streams) {
    const bool by_clock = stream.arrival == Arrival::Poisson;
    for (std::uint32_t i = 0; i < (by_clock ? 1 : stream.lanes); ++i) {
      Lane lane{.ask = stream.ask, .think = stream.think, .state = seed * 1000 + lanes_.size()};
      if (by_clock) lane.rate = stream.rate;
      lane.at = by_clock ? next_gap(lane.state, stream.rate) : Duration{};
      lanes_.push_back(std::move(lane));
    }
  }
}

Load::Load(std::vector<TimedAsk> asks, Duration length)
    : timed_(std::move(asks)), length_(length) {}

const Load::Lane* Load::earliest() const {
  const Lane* found = nullptr;
  for (const Lane& lane : lanes_) {
    if (lane.at && (found == nullptr || *lane.at < *found->at)) found = &lane;
  }
  return found;
}

std::optional<Duration> Load::next() const {
  const Lane* lane = earliest();
  std::optional<Duration> at;
  if (lane != nullptr) at = lane->at;
  if (timed_next_ < timed_.size()) at = timed_[timed_next_].at;
  if (at && *at >= length_) return std::nullopt;
  return at;
}

std::optional<Load::Due> Load::due(Duration now) {
  const auto at = next();
  if (!at || *at > now) return std::nullopt;
  if (timed_next_ < timed_.size()) return Due{0, timed_[timed_next_++].ask, count_++};
  const auto index = static_cast<std::uint32_t>(earliest() - lanes_.data());
  Lane& lane = lanes_[index];
  if (lane.rate > 0) {
    *lane.at += next_gap(lane.state, lane.rate);
  } else {
    lane.at.reset();
  }
  return Due{index, lane.ask, count_++};
}

void Load::over(std::uint32_t lane, Duration now, bool failed) {
  if (lane >= lanes_.size() || lanes_[lane].rate > 0) return;
  const Duration think = lanes_[lane].think;
  lanes_[lane].at = now + (failed ? std::max(think, kAfterFailure) : think);
}

std::string own_words(std::uint64_t seed, std::uint64_t number, std::uint32_t words) {
  std::uint64_t state = seed ^ (number + 1) * 0xd1342543de82ef95ULL;
  const std::uint64_t mark = next_number(state);
  return fmt::format("#{:09} {}", mark % 1'000'000'000, words_of(state, words));
}

std::string shared_words(std::uint32_t words) {
  return words_of(7, words);
}

}  // namespace lares::app
