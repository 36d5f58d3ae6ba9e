#include "server/failed_keys.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

using std::chrono::seconds;

TEST(FailedKeys, ABurstThenOneNowAndThen) {
  FailedKeys failed({.burst = 3, .each = seconds(6), .sources_max = 10});
  const Instant start{seconds(1000)};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failed.note("10.0.0.1", start), Duration{0});
  EXPECT_EQ(failed.note("10.0.0.1", start), seconds(6));
  EXPECT_EQ(failed.note("10.0.0.1", start + seconds(2)), seconds(4));
  EXPECT_EQ(failed.note("10.0.0.2", start + seconds(2)), Duration{0}) << "others are not counted";
  EXPECT_EQ(failed.note("10.0.0.1", start + seconds(6)), Duration{0});
  EXPECT_EQ(failed.note("10.0.0.1", start + seconds(6)), seconds(6));
  const Instant later = start + seconds(1000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failed.note("10.0.0.1", later), Duration{0});
  EXPECT_GT(failed.note("10.0.0.1", later), Duration{0});
}

TEST(FailedKeys, RemembersNoMoreThanItMay) {
  FailedKeys failed({.burst = 2, .each = seconds(60), .sources_max = 100});
  const Instant start{seconds(1)};
  failed.note("192.168.0.1", start);
  failed.note("192.168.0.1", start);
  for (int i = 0; i < 1000; ++i) failed.note("10.0.0." + std::to_string(i), start);
  EXPECT_EQ(failed.sources(), 100U);
  EXPECT_GT(failed.note("192.168.0.1", start), Duration{0}) << "who owes most is kept";
  failed.note("10.9.9.9", start + seconds(1000));
  EXPECT_EQ(failed.sources(), 1U) << "what is paid off goes first";
}

TEST(FailedKeys, OneHouseholdIsOneSource) {
  EXPECT_EQ(source_of("2001:db8:1:2:3:4:5:6"), source_of("2001:db8:1:2:ffff::1"));
  EXPECT_NE(source_of("2001:db8:1:2::1"), source_of("2001:db8:1:3::1"));
  EXPECT_EQ(source_of("fe80::1%eth0"), source_of("fe80::2"));
  EXPECT_EQ(source_of("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(source_of("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(source_of(""), "");
}

}  // namespace
}  // namespace lares::server
