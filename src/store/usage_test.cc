#include "store/usage.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "store/sqlite.h"

namespace lares::store {
namespace {

class UsageTest : public ::testing::Test {
 protected:
  UsageTest() {
    char pattern[] = "/tmp/lares-usage-XXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  ~UsageTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

UsageRow row_of(std::string member, std::uint32_t output, Outcome outcome = Outcome::Done) {
  UsageRow row;
  row.job = ~std::uint64_t{0};  // Uses every bit.
  row.accepted_unix_ms = 1700000000000;
  row.member = std::move(member);
  row.cls = "chat";
  row.model = "starter-chat";
  row.prompt_tokens = 10;
  row.cached_tokens = 4;
  row.output_tokens = output;
  row.device = std::chrono::milliseconds(250);
  row.clocks.queue_wait = std::chrono::milliseconds(100);
  row.outcome = outcome;
  return row;
}

TEST_F(UsageTest, SumsByMember) {
  const auto ledger = *UsageLedger::open(folder_);
  UsageRow ben = row_of("ben", 7);
  ben.clocks.first_token = std::chrono::seconds(2);
  UsageRow ben_refused = row_of("ben", 0, Outcome::Refused);
  ben_refused.clocks.queue_wait = Duration{-1};  // Never reached: not part of the mean.
  ASSERT_TRUE(ledger->record({row_of("ana", 5), ben}));
  ASSERT_TRUE(ledger->record(
      {row_of("ana", 6, Outcome::Cancelled), ben_refused, row_of("ana", 1, Outcome::Failed)}));
  ASSERT_TRUE(ledger->record({}));
  const auto sums = *ledger->sum(UsageBy::Member);
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].key, "ana");
  EXPECT_EQ(sums[0].requests, 3U);
  EXPECT_EQ(sums[0].failed, 1U);
  EXPECT_EQ(sums[0].cancelled, 1U);
  EXPECT_EQ(sums[0].prompt_tokens, 30U);
  EXPECT_EQ(sums[0].cached_tokens, 12U);
  EXPECT_EQ(sums[0].output_tokens, 12U);
  EXPECT_DOUBLE_EQ(sums[0].device_s, 0.75);
  EXPECT_EQ(sums[1].failed, 1U);
  EXPECT_DOUBLE_EQ(sums[1].queue_wait_s_mean, 0.1);
  EXPECT_DOUBLE_EQ(sums[1].first_token_s_mean, 2.0);
}

TEST_F(UsageTest, WhatWasUsedOfLate) {
  const auto ledger = *UsageLedger::open(folder_);
  const std::int64_t quarter = row_of("", 0).accepted_unix_ms / 900'000 * 900'000;
  const auto row = [&](std::uint32_t member, std::int64_t minutes) {
    UsageRow out = row_of("ana", 5);
    out.member_id = MemberId{member};
    out.accepted_unix_ms = quarter + minutes * 60'000;
    return out;
  };
  ASSERT_TRUE(ledger->record({row(1, 20), row(1, -5), row(1, 14), row(2, 3), row(1, 0)}));
  const auto past = *ledger->used_since(quarter);
  ASSERT_EQ(past.size(), 3U);
  for (const PastUse& p : past) {
    const bool both = p.member == MemberId{1} && p.unix_ms == quarter;
    EXPECT_EQ(p.use.tokens, both ? 30U : 15U);
    EXPECT_EQ(p.use.device, std::chrono::milliseconds(both ? 500 : 250));
  }
  EXPECT_EQ(past[2].unix_ms, quarter + 900'000);
}

TEST_F(UsageTest, SumsByTheOtherKeys) {
  const auto ledger = *UsageLedger::open(folder_);
  UsageRow other = row_of("ana", 1);
  other.cls = "voice";
  other.model = "big";
  other.accepted_unix_ms += 3 * 86400 * 1000LL;
  ASSERT_TRUE(ledger->record({row_of("ana", 5), other, row_of("ben", 2)}));
  EXPECT_EQ(ledger->sum(UsageBy::Class)->at(0).key, "chat");
  EXPECT_EQ(ledger->sum(UsageBy::Class)->at(0).requests, 2U);
  EXPECT_EQ(ledger->sum(UsageBy::Model)->at(0).key, "big");
  const auto days = *ledger->sum(UsageBy::Day);
  ASSERT_EQ(days.size(), 2U);
  EXPECT_EQ(days[0].requests, 2U);
  EXPECT_EQ(days[0].key.substr(0, 9), "2023-11-1");
}

TEST_F(UsageTest, RowsAreThereWhenOpenedAgain) {
  ASSERT_TRUE((*UsageLedger::open(folder_))->record({row_of("ana", 5)}));
  ASSERT_TRUE((*UsageLedger::open(folder_))->record({row_of("ana", 5)}));
  const auto existing = UsageLedger::open_existing(folder_);
  ASSERT_TRUE(existing) << existing.error().message;
  EXPECT_EQ((*existing)->sum(UsageBy::Member)->at(0).requests, 2U);
  EXPECT_FALSE((*existing)->record({row_of("ana", 5)})) << "read-only";
}

TEST_F(UsageTest, NoLedgerYet) {
  EXPECT_EQ(UsageLedger::open_existing(folder_).error().code, Code::NotFound);
  EXPECT_EQ(UsageLedger::open_existing(folder_ + "/deeper").error().code, Code::NotFound);
  EXPECT_TRUE(UsageLedger::open(folder_ + "/deeper/still")) << "made as needed";
}

// Permission bits bind nobody who is root: a file in the way does.
TEST_F(UsageTest, AFolderThatCannotBeIsNamed) {
  std::ofstream(folder_ + "/file") << "x";
  for (const std::string& folder : {folder_ + "/file", folder_ + "/file/below"}) {
    const auto ledger = UsageLedger::open(folder);
    ASSERT_FALSE(ledger);
    EXPECT_EQ(ledger.error().code, Code::Io);
    EXPECT_NE(ledger.error().message.find(folder), std::string::npos) << ledger.error().message;
    EXPECT_NE(ledger.error().message.find("Not a directory"), std::string::npos)
        << ledger.error().message;
  }
  EXPECT_EQ(UsageLedger::open("/proc/nothing").error().code, Code::Io);
}

TEST_F(UsageTest, ADatabaseThatCannotBeOpened) {
  std::filesystem::create_directory(folder_ + "/lares.db");
  const auto ledger = UsageLedger::open(folder_);
  ASSERT_FALSE(ledger);
  EXPECT_EQ(ledger.error().code, Code::Io);
  EXPECT_NE(ledger.error().message.find(folder_), std::string::npos);
}

TEST_F(UsageTest, ACorruptFileSaysWhatToDo) {
  std::ofstream(folder_ + "/lares.db") << std::string(8192, 'x');
  const auto ledger = UsageLedger::open(folder_);
  ASSERT_FALSE(ledger);
  EXPECT_EQ(ledger.error().code, Code::Corrupt);
  EXPECT_NE(ledger.error().message.find("move it away"), std::string::npos);
}

TEST_F(UsageTest, ANewerSchemaIsRefusedAndLeftAlone) {
  ASSERT_TRUE(UsageLedger::open(folder_));
  {
    Database db = *Database::open(folder_ + "/lares.db", Access::ReadWrite);
    ASSERT_TRUE(db.execute("PRAGMA user_version=99"));
  }
  EXPECT_EQ(UsageLedger::open(folder_).error().code, Code::Unsupported);
  EXPECT_EQ(UsageLedger::open_existing(folder_).error().code, Code::Unsupported);
  EXPECT_EQ(*Database::open(folder_ + "/lares.db", Access::ReadOnly)->user_version(), 99);
}

TEST_F(UsageTest, ReadersSeeWholeTransactionsWhileTheWriterWrites) {
  const auto ledger = *UsageLedger::open(folder_);
  ASSERT_TRUE(ledger->record({row_of("ana", 1), row_of("ana", 1)}));
  std::atomic<bool> stop{false};
  const auto read = [&] {
    const auto reader = *UsageLedger::open_existing(folder_);
    std::uint64_t last = 0;
    while (!stop) {
      const auto sums = reader->sum(UsageBy::Member);
      ASSERT_TRUE(sums) << sums.error().message;
      ASSERT_EQ(sums->at(0).requests % 2, 0U) << "half of a transaction";
      ASSERT_GE(sums->at(0).requests, last);
      last = sums->at(0).requests;
    }
  };
  std::thread first(read);
  std::thread second(read);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(ledger->record({row_of("ana", 1), row_of("ana", 1)}));
  }
  stop = true;
  first.join();
  second.join();
}

}  // namespace
}  // namespace lares::store
