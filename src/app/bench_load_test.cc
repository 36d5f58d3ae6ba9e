#include "app/bench_load.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace lares::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Scenario& scenario(const char* name) {
  const Scenario* found = find_scenario(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

// Everything that a load asks for, if each answer takes `answer`: (time, who), in order.
std::vector<std::pair<Duration, std::string>> played(Load load, Duration answer,
                                                     bool failed = false) {
  std::vector<std::pair<Duration, std::string>> asked;
  std::multimap<Duration, std::uint32_t> under_way;
  while (true) {
    const auto next = load.next();
    const bool over = !under_way.empty() && (!next || under_way.begin()->first <= *next);
    if (over) {
      load.over(under_way.begin()->second, under_way.begin()->first, failed);
      under_way.erase(under_way.begin());
    } else if (next) {
      const auto due = load.due(*next);
      EXPECT_TRUE(due.has_value());
      asked.emplace_back(*next, due->ask.member);
      under_way.emplace(*next + answer, due->lane);
    } else {
      return asked;
    }
  }
}

std::size_t count(const auto& asked, std::string_view member) {
  return static_cast<std::size_t>(
      std::ranges::count_if(asked, [&](const auto& a) { return a.second == member; }));
}

TEST(BenchLoad, ScenariosAreThoseOfTheMeasurements) {
  std::string all;
  for (const Scenario& s : household_scenarios()) all += s.name + " ";
  EXPECT_EQ(all, "evening noisy overload long-doc alone shared-prefix ");
  EXPECT_EQ(find_scenario("morning"), nullptr);
  const Scenario& evening = scenario("evening");
  ASSERT_EQ(evening.streams.size(), 5U);
  EXPECT_EQ(evening.streams[0].ask.cls, "voice");
  EXPECT_EQ(evening.streams[0].arrival, Arrival::Poisson);
  EXPECT_EQ(evening.streams[4].ask.words, 3500U);
  EXPECT_EQ(scenario("noisy").streams[1].lanes, 16U);
  EXPECT_EQ(scenario("shared-prefix").streams[1].ask.shared_words, 1200U);
}

TEST(BenchLoad, ClosedLanesWaitForTheirAnswerAndThink) {
  const auto asked = played(Load(scenario("noisy"), seconds(10), 1), milliseconds(1000));
  // ana: 1 s of answer and 1 s of thinking; dan: sixteen at once, one after the other.
  EXPECT_EQ(count(asked, "ana"), 5U);
  EXPECT_EQ(count(asked, "dan"), 160U);
  EXPECT_LT(asked.back().first, seconds(10));
}

TEST(BenchLoad, NothingMoreOfALaneUntilItsAnswerIsThere) {
  Load load(scenario("alone"), seconds(10), 1);
  const auto first = load.due(Duration{});
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(load.due(seconds(5)).has_value());
  EXPECT_FALSE(load.next().has_value());
  load.over(first->lane, seconds(5), false);
  EXPECT_EQ(load.next(), seconds(5));
  const auto second = load.due(seconds(6));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->number, 1U);
}

TEST(BenchLoad, FailuresAreNotRepeatedAtOnce) {
  const auto asked = played(Load(scenario("alone"), seconds(2), 1), milliseconds(0), true);
  EXPECT_EQ(asked.size(), 10U);
}

TEST(BenchLoad, PoissonDependsOnTheSeedAlone) {
  Scenario s{"p", {{.ask = {"ana", "voice", 1, 0, 1}, .arrival = Arrival::Poisson, .rate = 10}}};
  const auto fast = played(Load(s, seconds(100), 1), milliseconds(1));
  EXPECT_EQ(fast, played(Load(s, seconds(100), 1), seconds(50)));
  EXPECT_NE(fast, played(Load(s, seconds(100), 2), milliseconds(1)));
  // 1,000 expected; its standard deviation is 32.
  EXPECT_NEAR(static_cast<double>(fast.size()), 1000, 130);
}

store::UsageRow row(std::int64_t ms, std::uint32_t member, std::uint32_t prompt,
                    std::uint32_t output) {
  store::UsageRow r;
  r.accepted_unix_ms = ms;
  r.member_id = MemberId{member};
  r.member = "Ana Maria";
  r.cls = "chat";
  r.prompt_tokens = prompt;
  r.output_tokens = output;
  return r;
}

TEST(BenchLoad, UsageBecomesLettersPressedIntoTheTime) {
  const std::vector<store::UsageRow> rows{row(5000, 7, 20, 30), row(1000, 9, 10, 5),
                                          row(2999, 7, 11, 6), row(3000, 4, 0, 9),
                                          row(3000, 4, 9, 0)};
  const auto asks = asks_of_usage(rows, seconds(4), 100);
  ASSERT_EQ(asks.size(), 3U);
  EXPECT_EQ(asks[0].at, Duration{});
  EXPECT_EQ(asks[0].ask.member, "b");
  EXPECT_EQ(asks[1].ask.member, "a");  // Who asked most.
  EXPECT_EQ(asks[1].ask.words, 11U);
  EXPECT_NEAR(std::chrono::duration<double>(asks[1].at).count(), 2, 0.01);
  EXPECT_LT(asks[2].at, seconds(4));
  EXPECT_EQ(asks[2].ask.output, 30U);
  const auto asked = played(Load(asks, seconds(4)), seconds(100));
  EXPECT_EQ(asked.size(), 3U);  // By the clock, whatever the server does.
  EXPECT_TRUE(asks_of_usage({}, seconds(4), 100).empty());
}

TEST(BenchLoad, OfTooMuchUsageEveryNth) {
  std::vector<store::UsageRow> rows;
  for (std::uint32_t i = 0; i < 1000; ++i) rows.push_back(row(i, i % 30, 1 + i, 1));
  const auto asks = asks_of_usage(rows, seconds(10), 10);
  ASSERT_EQ(asks.size(), 10U);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(asks[i].ask.words, 1 + i * 100);
  std::vector<std::string> names;
  for (const auto& ask : asks_of_usage(rows, seconds(10), 1000)) names.push_back(ask.ask.member);
  EXPECT_NE(std::ranges::find(names, "ad"), names.end());  // The thirtieth.
}

TEST(BenchLoad, WordsDifferFromTheFirstOn) {
  EXPECT_EQ(own_words(1, 2, 5), own_words(1, 2, 5));
  EXPECT_NE(own_words(1, 2, 5).substr(0, 10), own_words(1, 3, 5).substr(0, 10));
  EXPECT_NE(own_words(1, 2, 5).substr(0, 10), own_words(2, 2, 5).substr(0, 10));
  const std::string words = own_words(1, 2, 5);
  EXPECT_EQ(std::ranges::count(words, ' '), 5);
  EXPECT_EQ(shared_words(9), shared_words(9));
}

}  // namespace
}  // namespace lares::app
