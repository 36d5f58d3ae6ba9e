#include "app/member_command.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace lares::app {
namespace {

store::Member ana() {
  store::Member member;
  member.share.id = MemberId{3};
  member.share.name = "an\xc3\xa4";
  member.share.weight_permille = 2500;
  member.share.limits.in_flight = 4;
  member.classes = {"voice", "chat"};
  member.created_unix_ms = 1700000000123;
  return member;
}

int run(std::vector<std::string> words) {
  return run_member_command(words);
}

TEST(MemberTable, Aligns) {
  store::Member ben = ana();
  ben.share = {MemberId{12}, "benjamin", 1000, {}};
  ben.admin = true;
  EXPECT_EQ(member_table({ana(), ben}),
            "id  name      classes (* default)  weight  admin  limits\n"
            "3   an\xc3\xa4       voice chat*          2.5     no     4 in flight\n"
            "12  benjamin  voice chat*          1       yes    none\n");
  EXPECT_EQ(member_table({}), "no members yet; `lares member add NAME` makes one\n");
}

TEST(MemberJson, HasTheKeyOnlyOnce) {
  EXPECT_EQ(member_json(ana()),
            "{\"id\": 3, \"name\": \"an\xc3\xa4\", \"classes\": [\"voice\", \"chat\"], "
            "\"default_class\": \"chat\", \"weight\": 2.5, \"admin\": false, \"in_flight\": 4, "
            "\"queued\": 0, \"tokens_a_day\": 0, \"device_seconds_a_day\": 0, \"created\": "
            "1700000000}");
  EXPECT_NE(member_json(ana(), "lares-x").find("\"key\": \"lares-x\""), std::string::npos);
}

TEST(MemberCommand, WrongArguments) {
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"ad", "ana"}), 2);
  EXPECT_EQ(run({"add"}), 2);
  EXPECT_EQ(run({"add", "ana", "ben"}), 2);
  EXPECT_EQ(run({"list", "ana"}), 2);
  EXPECT_EQ(run({"add", "ana", "--weight", "0.05"}), 2);
  EXPECT_EQ(run({"add", "ana", "--weight", "nan"}), 2);
  EXPECT_EQ(run({"add", "ana", "--queued", "-1"}), 2);
  EXPECT_EQ(run({"add", "ana", "--tokens-a-day", "18446744073709551615"}), 2);
  EXPECT_EQ(run({"add", "ana", "--clas", "chat"}), 2);
  EXPECT_EQ(run({"add", "home", "--data", "/no/such/folder"}), 2);
  EXPECT_EQ(run({"remove", "ana", "--admin"}), 2);
  EXPECT_EQ(run({"set", "ana"}), 2);
  EXPECT_EQ(run({"show", "ana", "--data", "/no/such/folder"}), 1);
  EXPECT_EQ(run({"list", "--data", "/no/such/folder"}), 0);
  EXPECT_EQ(run({"--help"}), 0);
}

TEST(MemberCommand, ALife) {
  char pattern[] = "/tmp/lares-member-XXXXXX";
  const std::string data = ::mkdtemp(pattern);
  const auto find = [&data] { return store::MemberStore::open_existing(data)->find("ana"); };
  ASSERT_EQ(
      run({"add", "ana", "--class", "agent", "--class", "chat", "--weight=0.5", "--data", data}),
      0);
  const store::Member added = *find();
  EXPECT_EQ(added.default_class, "chat");
  EXPECT_EQ(added.share.weight_permille, 500U);
  EXPECT_EQ(run({"add", "ana", "--data", data}), 1) << "the name is taken";
  ASSERT_EQ(run({"set", "ana", "--class", "voice", "--in-flight", "2", "--data", data}), 0);
  EXPECT_EQ(find()->default_class, "voice");
  EXPECT_EQ(find()->share.limits.in_flight, 2U);
  EXPECT_EQ(find()->share.weight_permille, 500U);
  EXPECT_EQ(find()->key_hash, added.key_hash);
  ASSERT_EQ(run({"rotate", "ana", "--json", "--data", data}), 0);
  EXPECT_NE(find()->key_hash, added.key_hash);
  EXPECT_EQ(run({"show", "ana", "--data", data}), 0);
  EXPECT_EQ(run({"remove", "ana", "--data", data}), 0);
  EXPECT_EQ(run({"remove", "ana", "--data", data}), 1);
  std::filesystem::remove_all(data);
}

}  // namespace
}  // namespace lares::app
