#include "store/segments.h"

#include <gtest/gtest.h>

#include "core/test_folder.h"
#include "store/usage.h"

namespace lares::store {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);

UsageRow row(std::uint64_t job, std::int64_t at, Clocks clocks, Outcome outcome = Outcome::Done) {
  UsageRow r;
  r.job = job;
  r.accepted_unix_ms = at;
  r.member = "ana";
  r.cls = "chat";
  r.model = "m";
  r.clocks = clocks;
  r.outcome = outcome;
  return r;
}

TEST(Segments, ThePartThatTookLongestComesFirst) {
  const std::string folder = test_file("segments");
  {
    auto ledger = UsageLedger::open(folder);
    ASSERT_TRUE(ledger) << ledger.error().message;
    ASSERT_TRUE((*ledger)->record({
        // Of three seconds in the queue two were spent waiting for the model.
        row(1, 1000,
            {.queue_wait = 3 * kSecond,
             .model_load = 2 * kSecond,
             .prefill = kSecond,
             .inference = 4 * kSecond,
             .deliver = 5 * kSecond}),
        row(2, 2000,
            {.queue_wait = kSecond,
             .prefill = 9 * kSecond,
             .inference = kSecond,
             .deliver = kSecond / 2}),
        row(3, 3000, {.queue_wait = 100 * kSecond}, Outcome::Failed),
        row(4, 10, {.queue_wait = 100 * kSecond}),  // Too long ago.
    }));
  }
  const auto segments = segments_since(folder, 1000);
  ASSERT_TRUE(segments) << segments.error().message;
  std::vector<std::pair<std::string, double>> sums;
  for (const Segment& s : *segments) sums.emplace_back(s.name, s.seconds);
  EXPECT_EQ(
      sums,
      (std::vector<std::pair<std::string, double>>{
          {"prefill", 10}, {"inference", 5}, {"queue", 2}, {"model_load", 2}, {"deliver", 1}}));
  EXPECT_EQ(segments->at(0).requests, 2U);
  EXPECT_DOUBLE_EQ(segments->at(0).mean_s, 5);
  EXPECT_DOUBLE_EQ(segments->at(0).p95_s, 9);
  EXPECT_EQ(*newest_request(folder), 3000);
}

TEST(Segments, WhereNothingServed) {
  EXPECT_EQ(segments_since(test_file("nowhere"), 0).error().code, Code::NotFound);
  const std::string folder = test_file("unused");
  { ASSERT_TRUE(UsageLedger::open(folder)); }
  EXPECT_TRUE(segments_since(folder, 0)->empty());
  EXPECT_EQ(*newest_request(folder), 0);
}

}  // namespace
}  // namespace lares::store
