#include "sim/fairness.h"

#include <array>

#include <gtest/gtest.h>

namespace lares::sim {
namespace {

using std::chrono::seconds;

TEST(ServiceDifference, IsNothingWhereMembersGetTheSame) {
  std::vector<Served> served;
  for (std::uint32_t m = 0; m < 2; ++m)
    served.push_back({seconds(0), seconds(0), seconds(0), seconds(200), m, 2000});
  served.push_back({seconds(200), seconds(200), seconds(200), seconds(201), 0, 0});
  EXPECT_NEAR(service_difference(served).largest, 0, 1e-9);
}

TEST(ServiceDifference, IsTheShortfallASecond) {
  // One gets 30 a second; the other asked for 20 a second in every window, and gets 10.
  std::vector<Served> served{{seconds(0), seconds(0), seconds(0), seconds(200), 0, 6000}};
  for (int t = 0; t < 200; ++t)
    served.push_back({seconds(t), seconds(t), seconds(t), seconds(t + 1), 1, 10});
  for (int t = 0; t < 200; ++t)
    served.push_back({seconds(t), seconds(1000), seconds(1000), seconds(1001), 1, 10});
  // Member 0 asked for nothing in most windows: |0 - 1800|, but the greatest is its own.
  EXPECT_NEAR(service_difference(served).average, 10, 1.0);
}

TEST(BackloggedJain, LooksAtThoseThatAlwaysWaitAndDividesByTheirWeight) {
  // Both send ten requests at once, served one after the other; the second gets twice as much.
  std::vector<Served> served;
  for (int i = 0; i < 10; ++i) {
    served.push_back({seconds(0), seconds(10 * i), seconds(10 * i), seconds(10 * i + 10), 0, 100});
    served.push_back({seconds(0), seconds(10 * i), seconds(10 * i), seconds(10 * i + 10), 1, 200});
  }
  EXPECT_NEAR(backlogged_jain(served, {}), 0.9, 1e-9);  // (1 + 2)^2 / (2 (1 + 4)).
  EXPECT_NEAR(backlogged_jain(served, std::array{1000U, 2000U}), 1, 1e-9);
  // A third that never waits is not among them.
  served.push_back({seconds(5), seconds(5), seconds(5), seconds(95), 2, 9000});
  EXPECT_NEAR(backlogged_jain(served, {}), 0.9, 1e-9);
}

TEST(JainIndex, IsOneForEqualsAndOneNthForOneOfN) {
  EXPECT_DOUBLE_EQ(jain_index(std::array{3.0, 3.0, 3.0}), 1);
  EXPECT_DOUBLE_EQ(jain_index(std::array{5.0, 0.0, 0.0, 0.0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index({}), 1);
}

TEST(Quantile, LiesBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.25), 2.5);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
}

}  // namespace
}  // namespace lares::sim
