#include "sched/accounts.h"

#include <gtest/gtest.h>

namespace lares::sched {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

Accounts::Index join(Accounts& accounts, std::uint32_t id, std::uint64_t task = 0) {
  const auto member = accounts.member(MemberId{id});
  accounts.submitted(member, TaskId{task});
  return member;
}

TEST(Accounts, AWeightOfTwoIsChargedHalf) {
  Accounts accounts(1, 0);
  accounts.set_limits(MemberId{1}, {.weight = 2000});
  const auto heavy = join(accounts, 1);
  const auto plain = join(accounts, 2);
  accounts.charge(heavy, accounts[heavy].no_task, {}, 1000);
  accounts.charge(plain, accounts[plain].no_task, {}, 1000);
  EXPECT_EQ(accounts[heavy].counter, 500);
  EXPECT_EQ(accounts[plain].counter, 1000);
}

TEST(Accounts, WhoeverJoinsIsLiftedToTheLeastOfThoseThatWait) {
  Accounts accounts(1, 0);
  const auto a = join(accounts, 1), b = join(accounts, 2);
  accounts.charge(a, accounts[a].no_task, {}, 500);
  accounts.charge(b, accounts[b].no_task, {}, 300);
  const auto c = join(accounts, 3);
  EXPECT_EQ(accounts[c].counter, 300);
  EXPECT_EQ(accounts[c].lifts, 1U);
}

TEST(Accounts, WithNobodyWaitingItIsLiftedToTheOneThatLeftLast) {
  Accounts accounts(1, 0);
  const auto a = join(accounts, 1);
  accounts.left_queue(a);
  accounts.charge(a, accounts[a].no_task, {}, 800);
  const auto b = join(accounts, 2);
  EXPECT_EQ(accounts[b].counter, 800);
}

TEST(Accounts, ALiftNeverLowersAndWhoWaitsIsNotLifted) {
  Accounts accounts(1, 0);
  const auto a = join(accounts, 1), b = join(accounts, 2);
  accounts.charge(b, accounts[b].no_task, {}, 900);
  join(accounts, 2);
  EXPECT_EQ(accounts[b].counter, 900);
  join(accounts, 1);  // Waits already: its credit is its own.
  EXPECT_EQ(accounts[a].counter, 0);
  EXPECT_EQ(accounts[a].lifts, 0U);
}

TEST(Accounts, WhoseJobsRunKeepsSomeCreditAndNoMore) {
  Accounts accounts(1, 100);
  const auto a = join(accounts, 1), b = join(accounts, 2);
  accounts.left_queue(b);
  accounts.started(b);
  accounts.charge(a, accounts[a].no_task, {}, 300);
  accounts.charge(b, accounts[b].no_task, {}, 250);
  join(accounts, 2);
  EXPECT_EQ(accounts[b].counter, 250);
  accounts.left_queue(b);
  accounts.charge(a, accounts[a].no_task, {}, 600);
  join(accounts, 2);
  EXPECT_EQ(accounts[b].counter, 800);
}

TEST(Accounts, ATaskJoinsAtTheLeastOfItsMembersOthers) {
  Accounts accounts(1, 0);
  const auto member = accounts.member(MemberId{1});
  const auto first = accounts.submitted(member, TaskId{7});
  accounts.charge(member, first, TaskId{7}, 100);
  const auto second = accounts.submitted(member, TaskId{8});
  EXPECT_EQ(accounts.task(second).counter, 100);
  accounts.charge(member, second, TaskId{9}, 50);  // Answered late, for a task that is gone.
  EXPECT_EQ(accounts.task(second).counter, 100);
}

TEST(Accounts, SharesAreOfTheLastTenSeconds) {
  Accounts accounts(2, 0);
  Instant now{};
  accounts.class_served(0, milliseconds(300));
  accounts.class_served(1, milliseconds(100));
  EXPECT_EQ(accounts.class_share(0), 750U);
  EXPECT_EQ(accounts.class_share(1), 250U);
  now += seconds(5);
  accounts.advance(now);
  accounts.class_served(1, milliseconds(400));
  EXPECT_EQ(accounts.class_share(0), 375U);
  now += seconds(6);
  accounts.advance(now);
  EXPECT_EQ(accounts.class_share(0), 0U);
  EXPECT_EQ(accounts.class_share(1), 1000U);
  now += seconds(600);
  accounts.advance(now);
  EXPECT_EQ(accounts.class_share(1), 0U);
  accounts.check();
}

TEST(Accounts, OutputsAreExpectedToBeAsLongAsOfLate) {
  Accounts accounts(2, 0);
  const auto a = join(accounts, 1);
  EXPECT_EQ(accounts.output_expected(a, 0, 128), 128U);
  accounts.output_seen(a, 0, 40);
  EXPECT_EQ(accounts.output_expected(a, 0, 128), 40U);
  accounts.output_seen(a, 0, 80);
  EXPECT_EQ(accounts.output_expected(a, 0, 128), 50U);
  EXPECT_EQ(accounts.output_expected(a, 1, 128), 128U);
}

}  // namespace
}  // namespace lares::sched
