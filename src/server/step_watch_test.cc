#include "server/step_watch.h"

#include <gtest/gtest.h>

namespace lares::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(StepWatch, AllowsLongBeforeAnythingIsKnown) {
  EXPECT_EQ(StepWatch().limit(512), minutes(10));
}

TEST(StepWatch, NeverLessThanTenSeconds) {
  StepWatch watch;
  watch.observe(1, milliseconds(5));
  EXPECT_EQ(watch.limit(1), seconds(10));
}

TEST(StepWatch, TenTimesWhatStepsOfThatSizeTake) {
  StepWatch watch;
  watch.observe(512, seconds(4));
  EXPECT_EQ(watch.limit(512), seconds(40));
  EXPECT_EQ(watch.limit(1), seconds(40));
}

TEST(StepWatch, ALargerStepThanAnySeenIsScaledUp) {
  StepWatch watch;
  watch.observe(1, seconds(2));
  EXPECT_EQ(watch.limit(8), seconds(160));
}

}  // namespace
}  // namespace lares::server
