#include "server/job_queue.h"

#include <vector>

#include <gtest/gtest.h>

namespace lares::server {
namespace {

using Lane = JobQueue::Lane;
const Lane kAna{MemberId{1}, "chat"}, kDan{MemberId{2}, "agent"};
constexpr Instant kNow{std::chrono::seconds(100)};

std::vector<std::int64_t> take_all(JobQueue& queue, Instant now = kNow) {
  std::vector<std::int64_t> taken;
  while (const auto seq = queue.next(now)) taken.push_back(*seq);
  return taken;
}

TEST(JobQueue, ALaneGoesInItsOrderAndNoFurtherThanItsWindow) {
  JobQueue queue({.lane_max = 2, .total = 10});
  for (const std::int64_t seq : {7, 3, 5}) queue.add(seq, kDan);
  EXPECT_EQ(queue.position(5, kDan), 1U);
  EXPECT_EQ(take_all(queue), (std::vector<std::int64_t>{3, 5}));
  queue.finished(kDan);
  EXPECT_EQ(take_all(queue), std::vector<std::int64_t>{7});
}

TEST(JobQueue, WhoHasTheFewestOutIsNext) {
  JobQueue queue({.lane_max = 8, .total = 4});
  for (std::int64_t seq = 1; seq <= 20; ++seq) queue.add(seq, kDan);
  for (std::int64_t seq = 21; seq <= 22; ++seq) queue.add(seq, kAna);
  EXPECT_EQ(take_all(queue), (std::vector<std::int64_t>{1, 21, 2, 22}));
  EXPECT_EQ(queue.waiting(kDan.member), 18U);
}

TEST(JobQueue, WhatFindsNoRoomKeepsItsPlaceAndItsLaneWaits) {
  JobQueue queue({.lane_max = 8, .total = 4});
  for (const std::int64_t seq : {1, 2}) queue.add(seq, kDan);
  EXPECT_EQ(queue.next(kNow), 1);
  queue.put_back(1, kDan, kNow + std::chrono::seconds(1));
  EXPECT_FALSE(queue.next(kNow));
  queue.add(3, kAna);
  EXPECT_EQ(queue.next(kNow), 3) << "another lane does not wait";
  EXPECT_EQ(take_all(queue, kNow + std::chrono::seconds(1)), (std::vector<std::int64_t>{1, 2}));
}

TEST(JobQueue, WhatIsTakenOutIsNotHandedOver) {
  JobQueue queue({});
  queue.add(1, kDan);
  EXPECT_TRUE(queue.remove(1, kDan));
  EXPECT_FALSE(queue.remove(1, kDan));
  EXPECT_FALSE(queue.next(kNow));
}

}  // namespace
}  // namespace lares::server
