#include "store/usage_view.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "core/test_folder.h"

namespace lares::store {
namespace {

constexpr std::int64_t kHour = 1'700'000'000'000 / 3'600'000 * 3'600'000;

class UsageViewTest : public ::testing::Test {
 protected:
  UsageViewTest() {
    folder_ = test_file(::testing::UnitTest::GetInstance()->current_test_info()->name());
    ledger_ = *UsageLedger::open(folder_);
  }
  ~UsageViewTest() override { std::filesystem::remove_all(folder_); }

  void record(std::uint32_t member, std::int64_t minute, int wait_ms) {
    UsageRow row;
    row.job = 77;
    row.member_id = MemberId{member};
    row.member = member == 1 ? "ana" : "ben";
    row.cls = "chat";
    row.model = "m";
    row.accepted_unix_ms = kHour + minute * 60'000;
    row.device = std::chrono::milliseconds(250);
    row.output_tokens = 3;
    if (wait_ms >= 0) row.clocks.queue_wait = std::chrono::milliseconds(wait_ms);
    row.outcome = wait_ms < 0 ? Outcome::Cancelled : Outcome::Done;
    row.reason = wait_ms < 0 ? "cancelled" : "";
    ASSERT_TRUE(ledger_->record({row}));
  }

  std::string folder_;
  std::unique_ptr<UsageLedger> ledger_;
};

TEST_F(UsageViewTest, HoursByMemberAndClass) {
  record(1, -1, 5);
  record(1, 0, 10);
  record(1, 59, 30);
  record(1, 59, -1);
  record(2, 59, 1);
  record(2, 60, 1);
  const auto uses = *UsageView::open(folder_)->hours(kHour);
  ASSERT_EQ(uses.size(), 3U);
  EXPECT_EQ(uses[0].unix_s, kHour / 1000);
  EXPECT_EQ(uses[0].member, "ana");
  EXPECT_EQ(uses[0].requests, 3U);
  EXPECT_EQ(uses[0].output_tokens, 9U);
  EXPECT_EQ(uses[0].device, std::chrono::milliseconds(750));
  EXPECT_EQ(uses[0].wait_mean, std::chrono::milliseconds(20)) << "of those that came so far";
  EXPECT_EQ(uses[0].wait_max, std::chrono::milliseconds(30));
  EXPECT_EQ(uses[0].first_token_mean, Duration{});
  EXPECT_EQ(uses[1].member_id, MemberId{2});
  EXPECT_EQ(uses[2].unix_s, kHour / 1000 + 3600);
}

TEST_F(UsageViewTest, RequestsInPagesOfOneOrOfAll) {
  for (int i = 0; i < 10; ++i) record(i % 2 == 0 ? 1 : 2, i, i);
  record(1, 11, -1);
  auto view = *UsageView::open(folder_);
  const auto newest = *view.requests(std::nullopt, 0, 3);
  ASSERT_EQ(newest.size(), 3U);
  EXPECT_EQ(newest[0].row.outcome, Outcome::Cancelled);
  EXPECT_EQ(newest[0].row.reason, "cancelled");
  EXPECT_EQ(newest[0].row.clocks.queue_wait, Duration{-1});
  EXPECT_EQ(newest[1].row.clocks.queue_wait, std::chrono::milliseconds(9));
  EXPECT_EQ(newest[0].row.job, 77U);
  EXPECT_EQ(newest[0].row.job_id, "");
  const auto next = *view.requests(std::nullopt, newest.back().number, 100);
  EXPECT_EQ(next.size(), 8U);
  std::int64_t before = 0;
  std::size_t of_ana = 0;
  while (true) {
    const auto page = *view.requests(MemberId{1}, before, 2);
    if (page.empty()) break;
    for (const PastRequest& past : page) {
      EXPECT_EQ(past.row.member, "ana");
      EXPECT_TRUE(before == 0 || past.number < before);
      ++of_ana;
    }
    before = page.back().number;
  }
  EXPECT_EQ(of_ana, 6U);
}

TEST_F(UsageViewTest, NoLedgerYet) {
  EXPECT_EQ(UsageView::open(folder_ + "/nothing").error().code, Code::NotFound);
}

}  // namespace
}  // namespace lares::store
