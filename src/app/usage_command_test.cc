#include "app/usage_command.h"

#include <gtest/gtest.h>

namespace lares::app {
namespace {

store::UsageSum sum_of(std::string key, std::uint64_t requests) {
  store::UsageSum sum;
  sum.key = std::move(key);
  sum.requests = requests;
  sum.failed = 1;
  sum.prompt_tokens = 1000;
  sum.output_tokens = 20;
  sum.device_s = 1.5;
  sum.first_token_s_mean = 0.25;
  return sum;
}

TEST(UsageTable, AlignsAndAddsUp) {
  EXPECT_EQ(usage_table(store::UsageBy::Member, {sum_of("an\xc3\xa4", 2), sum_of("benjamin", 100)}),
            "member    requests  failed  cancelled  prompt  cached  output  device  mean wait  "
            "mean first\n"
            "an\xc3\xa4              2       1          0    1000       0      20  1.50 s       0 "
            "us    250.0 ms\n"
            "benjamin       100       1          0    1000       0      20  1.50 s       0 us    "
            "250.0 ms\n"
            "total          102       2          0    2000       0      40  3.00 s\n");
}

TEST(UsageTable, OneLineNeedsNoTotal) {
  const std::string table = usage_table(store::UsageBy::Day, {sum_of("2026-01-01", 2)});
  EXPECT_EQ(table.find("total"), std::string::npos);
  EXPECT_EQ(table.substr(0, 3), "day");
  EXPECT_EQ(usage_table(store::UsageBy::Day, {}), "no requests yet\n");
}

TEST(UsageJson, OneObjectALine) {
  EXPECT_EQ(usage_json(store::UsageBy::Model, {}), "[]\n");
  EXPECT_EQ(usage_json(store::UsageBy::Model, {sum_of("a\"b\xff", 2)}),
            "[\n  {\"model\": \"a\\\"b\xef\xbf\xbd\", \"requests\": 2, \"failed\": 1, "
            "\"cancelled\": 0, \"prompt_tokens\": 1000, \"cached_tokens\": 0, \"output_tokens\": "
            "20, \"device_s\": 1.500000, \"queue_wait_s_mean\": 0.000000, \"first_token_s_mean\": "
            "0.250000}\n]\n");
}

TEST(UsageCommand, WrongArguments) {
  EXPECT_EQ(run_usage_command(std::vector<std::string>{"--by", "membr"}), 2);
  EXPECT_EQ(run_usage_command(std::vector<std::string>{"--jsn"}), 2);
  EXPECT_EQ(run_usage_command(std::vector<std::string>{"--data"}), 2);
  EXPECT_EQ(run_usage_command(std::vector<std::string>{"--data", "/no/such/folder"}), 1);
}

}  // namespace
}  // namespace lares::app
