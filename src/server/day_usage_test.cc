#include "server/day_usage.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr MemberId kAna{1}, kBen{2};
constexpr std::int64_t kMinute = 60'000, kHour = 60 * kMinute, kDay = 24 * kHour;
constexpr std::int64_t kNoon = std::int64_t{20'000} * kDay + 12 * kHour;

TEST(DayUsage, NoLimitIsNeverReached) {
  DayUsage day;
  day.add(kAna, kNoon, {1'000'000, hours(20)});
  EXPECT_FALSE(day.over(kAna, {}, {}, kNoon));
  EXPECT_FALSE(day.over(kBen, {.tokens_a_day = 1}, {}, kNoon));
}

TEST(DayUsage, TokensAndDeviceTimeEachHaveTheirLimit) {
  DayUsage day;
  day.add(kAna, kNoon, {600, seconds(30)});
  EXPECT_FALSE(day.over(kAna, {.tokens_a_day = 601, .device_seconds_a_day = 31}, {}, kNoon));
  const auto tokens = day.over(kAna, {.tokens_a_day = 600}, {}, kNoon);
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->what, "600 of 600 tokens");
  const auto device = day.over(kAna, {.device_seconds_a_day = 30}, {}, kNoon);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->what, "30 of 30 seconds of the device");
}

TEST(DayUsage, WhatIsUnderWayCounts) {
  DayUsage day;
  day.add(kAna, kNoon, {600, {}});
  EXPECT_FALSE(day.over(kAna, {.tokens_a_day = 1000}, {399, {}}, kNoon));
  EXPECT_TRUE(day.over(kAna, {.tokens_a_day = 1000}, {400, {}}, kNoon));
  const auto alone = day.over(kBen, {.tokens_a_day = 10}, {10, {}}, kNoon);
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->wait, hours(24));
}

TEST(DayUsage, TheWaitIsUntilEnoughIsADayOld) {
  DayUsage day;
  day.add(kAna, kNoon, {100, {}});
  day.add(kAna, kNoon + kHour, {500, {}});
  day.add(kAna, kNoon + 2 * kHour, {50, {}});
  const std::int64_t now = kNoon + 3 * kHour;
  // Without the first there are 550 left, without the second 50.
  EXPECT_EQ(day.over(kAna, {.tokens_a_day = 600}, {}, now)->wait, hours(21) + minutes(15));
  EXPECT_EQ(day.over(kAna, {.tokens_a_day = 550}, {}, now)->wait, hours(22) + minutes(15));
  EXPECT_EQ(day.over(kAna, {.tokens_a_day = 40}, {}, now)->wait, hours(23) + minutes(15));
  // And then it is so.
  const std::int64_t then = now + 21 * kHour + 15 * kMinute;
  EXPECT_TRUE(day.over(kAna, {.tokens_a_day = 600}, {}, then - 1));
  EXPECT_FALSE(day.over(kAna, {.tokens_a_day = 600}, {}, then));
}

TEST(DayUsage, AClockThatIsSetBackLosesNothing) {
  DayUsage day;
  day.add(kAna, kNoon, {100, {}});
  day.add(kAna, kNoon - 5 * kHour, {100, {}});
  EXPECT_TRUE(day.over(kAna, {.tokens_a_day = 200}, {}, kNoon - 5 * kHour));
  EXPECT_FALSE(day.over(kAna, {.tokens_a_day = 200}, {}, kNoon + 2 * kDay));
}

}  // namespace
}  // namespace lares::server
