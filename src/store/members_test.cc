#include "store/members.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "store/key.h"
#include "store/usage.h"

namespace lares::store {
namespace {

class MembersTest : public ::testing::Test {
 protected:
  MembersTest() {
    char pattern[] = "/tmp/lares-members-XXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  ~MembersTest() override { std::filesystem::remove_all(folder_); }

  static Member named(std::string name) {
    Member member;
    member.share.name = std::move(name);
    member.classes = {"chat"};
    member.key_hash = hash_key(*new_key());
    return member;
  }

  std::string folder_;
};

TEST_F(MembersTest, ComesBackAsItWent) {
  MemberStore members = *MemberStore::open(folder_);
  Member ana = named("an\xc3\xa4 b");
  ana.share.weight_permille = 2500;
  ana.share.limits = {3, 40, 100000, 3600};
  ana.classes = {"voice", "chat"};
  ana.default_class = "voice";
  ana.admin = true;
  ana.created_unix_ms = 1700000000123;
  const Member added = *members.add(ana);
  EXPECT_EQ(added.share.id, MemberId{1});
  ana.share.id = added.share.id;
  EXPECT_EQ(added, ana);
  EXPECT_EQ(*members.find("an\xc3\xa4 b"), ana);
  MemberStore other = *MemberStore::open_existing(folder_);
  EXPECT_EQ(*other.all(), std::vector<Member>{ana});
}

TEST_F(MembersTest, AnIdIsGivenOnce) {
  MemberStore members = *MemberStore::open(folder_);
  EXPECT_EQ(members.add(named("ana"))->share.id, MemberId{1});
  EXPECT_EQ(members.add(named("ben"))->share.id, MemberId{2});
  ASSERT_TRUE(members.remove("ben"));
  EXPECT_EQ(members.add(named("ben"))->share.id, MemberId{3});
}

TEST_F(MembersTest, ChangesLeaveTheKey) {
  MemberStore members = *MemberStore::open(folder_);
  Member ana = *members.add(named("ana"));
  ana.share.weight_permille = 100;
  ASSERT_TRUE(members.change(ana));
  EXPECT_EQ(*members.find("ana"), ana);
  const std::string hash = hash_key(*new_key());
  ASSERT_TRUE(members.set_key_hash("ana", hash));
  EXPECT_EQ(members.find("ana")->key_hash, hash);
}

TEST_F(MembersTest, NamesThatAreNotThere) {
  MemberStore members = *MemberStore::open(folder_);
  EXPECT_NE(members.find("ana").error().message.find("There are none yet"), std::string::npos);
  ASSERT_TRUE(members.add(named("ana")));
  EXPECT_EQ(members.add(named("ana")).error().code, Code::Conflict);
  for (const auto& done :
       {members.remove("anna"), members.set_key_hash("anna", "x"), members.change(named("anna"))}) {
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::NotFound);
    EXPECT_NE(done.error().message.find("Did you mean `ana`?"), std::string::npos)
        << done.error().message;
  }
  EXPECT_EQ(MemberStore::open_existing(folder_ + "/deeper").error().code, Code::NotFound);
}

TEST_F(MembersTest, WhatMakesNoSenseIsRefused) {
  MemberStore members = *MemberStore::open(folder_);
  for (const char* name : {"", "home", "-x", " x", "x ", "a,b", "a\nb", "\xff"}) {
    EXPECT_EQ(members.add(named(name)).error().code, Code::Invalid) << name;
  }
  EXPECT_FALSE(members.add(named(std::string(65, 'x'))));
  Member member = named("ana");
  member.default_class = "voice";
  EXPECT_NE(members.add(member).error().message.find("may claim: chat"), std::string::npos);
  member = named("ana");
  member.share.weight_permille = 99;
  EXPECT_FALSE(members.add(member));
  member.share.weight_permille = 100001;
  EXPECT_FALSE(members.add(member));
  member = named("ana");
  member.classes = {"chat", "No"};
  EXPECT_FALSE(members.add(member));
  member.classes = {};
  EXPECT_FALSE(members.add(member));
  EXPECT_TRUE(members.all()->empty());
}

TEST_F(MembersTest, AnotherWriterIsNoticed) {
  MemberStore reader = *MemberStore::open(folder_);
  const std::int64_t before = *reader.data_version();
  EXPECT_EQ(*reader.data_version(), before);
  MemberStore writer = *MemberStore::open_existing(folder_);
  ASSERT_TRUE(writer.add(named("ana")));
  EXPECT_NE(*reader.data_version(), before);
  EXPECT_EQ(reader.all()->size(), 1U);
}

// As the first release wrote it.
TEST_F(MembersTest, ADatabaseOfTheFirstReleaseIsBroughtUpToDate) {
  ASSERT_TRUE(UsageLedger::open(folder_));
  {
    Database db = *Database::open(folder_ + "/lares.db", Access::ReadWrite);
    ASSERT_TRUE(
        db.execute("DROP TABLE member; DROP INDEX usage_member; DROP INDEX usage_job; DROP INDEX "
                   "usage_session; "
                   "ALTER TABLE usage DROP COLUMN job_id; ALTER TABLE usage DROP COLUMN session; "
                   "DROP TABLE job; DROP TABLE attempt; DROP TABLE event; DROP TABLE artefact; "
                   "DROP TABLE blob; DROP TABLE checkpoint; DROP TABLE expired; "
                   "DROP TABLE session; DROP TABLE latent; DROP TABLE latent_share; "
                   "DROP TABLE webhook; "
                   "ALTER TABLE usage DROP COLUMN member_id; "
                   "INSERT INTO usage VALUES (1, 2, 'home', 'chat', 'm', 3, 4, 5, 6, NULL, NULL, "
                   "NULL, NULL, NULL, NULL, NULL, NULL, 'done', ''); PRAGMA user_version=1"));
  }
  const auto ledger = UsageLedger::open_existing(folder_);
  ASSERT_TRUE(ledger) << ledger.error().message;
  EXPECT_EQ((*ledger)->sum(UsageBy::Member, MemberId{0})->at(0).output_tokens, 5U);
  EXPECT_TRUE((*ledger)->sum(UsageBy::Member, MemberId{1})->empty());
  EXPECT_TRUE(MemberStore::open_existing(folder_)->add(named("ana")));
}

}  // namespace
}  // namespace lares::store
