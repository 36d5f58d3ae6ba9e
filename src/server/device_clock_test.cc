#include "server/device_clock.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

using std::chrono::milliseconds;

constexpr Instant at(int ms) {
  return Instant(milliseconds(1000 + ms));
}

TEST(DeviceClock, EveryMomentIsBusyIdleOrOverhead) {
  DeviceClock clock;
  clock.start(at(0));
  clock.sent(at(10));
  clock.sent(at(12));
  clock.done(at(30), milliseconds(15));
  clock.charged(milliseconds(15));
  clock.done(at(40), milliseconds(10));
  auto totals = clock.totals(at(50), milliseconds(15));
  EXPECT_EQ(totals.wall, milliseconds(50));
  EXPECT_EQ(totals.busy, milliseconds(25));
  EXPECT_EQ(totals.idle, milliseconds(20));
  EXPECT_EQ(totals.overhead, milliseconds(5));
  EXPECT_EQ(totals.unclaimed, milliseconds(10)) << "not charged yet";
  clock.charged(milliseconds(7));
  clock.unclaimed(milliseconds(3));
  EXPECT_EQ(clock.totals(at(50), {}).unclaimed, milliseconds(3));
}

TEST(DeviceClock, WhatWasLostWasOverhead) {
  DeviceClock clock;
  clock.start(at(0));
  clock.sent(at(0));
  clock.lost(at(20));
  const auto totals = clock.totals(at(25), {});
  EXPECT_EQ(totals.overhead, milliseconds(20));
  EXPECT_EQ(totals.idle, milliseconds(5));
}

}  // namespace
}  // namespace lares::server
