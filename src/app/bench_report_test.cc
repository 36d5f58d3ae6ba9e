#include "app/bench_report.h"

#include <cmath>

#include <gtest/gtest.h>

#include "app/bench_run.h"
#include "core/json.h"

namespace lares::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

BenchRecord record(std::string member, std::string cls, int sent_ms, std::vector<int> pieces_ms,
                   std::uint32_t prompt, bool whole = true) {
  BenchRecord r{.member = std::move(member), .cls = std::move(cls), .sent = milliseconds(sent_ms)};
  for (const int ms : pieces_ms) r.pieces.emplace_back(milliseconds(ms));
  r.prompt = prompt;
  r.output = static_cast<std::uint32_t>(pieces_ms.size());
  if (whole) r.done = milliseconds(pieces_ms.empty() ? sent_ms : pieces_ms.back() + 10);
  return r;
}

BenchRun household() {
  BenchRun run{.scenario = "evening", .length = seconds(10), .wall = seconds(12)};
  run.records = {record("ben", "chat", 0, {500, 600, 900}, 20),
                 record("ana", "voice", 1000, {1100, 1150}, 10),
                 record("ana", "voice", 2000, {2300, 2350}, 10),
                 record("ben", "chat", 9000, {9500, 10500, 11500}, 40),
                 record("ben", "chat", 9900, {}, 0, false)};
  BenchRecord refused = record("ben", "chat", 9950, {}, 0, false);
  refused.error = "status 429: too many";
  run.records.push_back(refused);
  return run;
}

TEST(BenchReport, PercentilesAreValuesThatOccurred) {
  EXPECT_TRUE(std::isnan(bench_percentile({}, 0.5)));
  EXPECT_EQ(bench_percentile({3}, 0.99), 3);
  EXPECT_EQ(bench_percentile({4, 1, 3, 2}, 0.5), 3);
  EXPECT_EQ(bench_percentile({4, 1, 3, 2}, 0), 1);
  EXPECT_EQ(bench_percentile({4, 1, 3, 2}, 1), 4);
}

TEST(BenchReport, RowsByMemberAndClass) {
  const BenchSummary summary = summarise(household());
  ASSERT_EQ(summary.rows.size(), 2U);
  const BenchRow& ana = summary.rows[0];
  EXPECT_EQ(ana.member, "ana");
  EXPECT_EQ(ana.ok, 2U);
  EXPECT_NEAR(ana.first_mean, 0.2, 1e-9);
  EXPECT_NEAR(ana.first_p95, 0.3, 1e-9);
  EXPECT_NEAR(ana.gap_max, 0.05, 1e-9);
  EXPECT_NEAR(ana.output_s, 4.0 / 12, 1e-9);
  EXPECT_NEAR(ana.service_s, (20 + 2 * 4) / 10.0, 1e-9);
  const BenchRow& ben = summary.rows[1];
  // One was refused, one never came to its end: neither is whole, one is an error.
  EXPECT_EQ(ben.sent, 4U);
  EXPECT_EQ(ben.ok, 2U);
  EXPECT_EQ(ben.errors, 1U);
  EXPECT_NEAR(ben.gap_max, 1.0, 1e-9);
  // What came after the last second of sending is output, but not service.
  EXPECT_NEAR(ben.output_s, 6.0 / 12, 1e-9);
  EXPECT_NEAR(ben.service_s, (20 + 40 + 2 * 4) / 10.0, 1e-9);
  EXPECT_NEAR(summary.jain, (9.6 * 9.6) / (2 * (2.8 * 2.8 + 6.8 * 6.8)), 1e-9);
  EXPECT_EQ(summary.error, "status 429: too many");
}

TEST(BenchReport, Table) {
  const BenchRun run = household();
  EXPECT_EQ(bench_table(run, summarise(run)),
            "evening\n"
            "member  class  sent  ok  errors  first p50    p95    max  gap p50    p99    max  "
            "done p50  tokens/s  service/s\n"
            "ana     voice     2   2       0      0.300  0.300  0.300    0.050  0.050  0.050     "
            "0.360       0.3        2.8\n"
            "ben     chat      4   2       1      0.500  0.500  0.500    1.000  1.000  1.000     "
            "2.510       0.5        6.8\n"
            "12.0 s, output 0.8 tokens/s, service 9.6/s, Jain's index of service 0.852\n"
            "first error: status 429: too many\n");
}

TEST(BenchReport, MarkdownAsInTheBenchmarks) {
  const BenchRun run = household();
  BenchRun nothing{.scenario = "alone", .length = seconds(1), .wall = milliseconds(10)};
  const std::vector<BenchRun> runs{run, nothing};
  EXPECT_EQ(bench_markdown(runs),
            "| scenario | output tokens/s | first token p95, s | longest gap, s | Jain | errors |\n"
            "|---|---|---|---|---|---|\n"
            "| `evening` | 0.8 | 0.30 | 1.00 | 0.852 | 1 |\n"
            "| `alone` | 0.0 | - | - | - | 0 |\n");
}

TEST(BenchReport, JsonIsJsonAlsoOfNothing) {
  BenchRun nothing{.scenario = "a \"b\"", .length = seconds(1), .wall = milliseconds(10)};
  nothing.records.push_back(record("ana", "chat", 0, {}, 0, false));
  const auto parsed = json::parse(bench_json(std::vector{household(), nothing}, "http://x", 3));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const json::Array& runs = *parsed->find("runs")->as<json::Array>();
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(*runs[1].find("scenario")->as<std::string>(), "a \"b\"");
  EXPECT_TRUE(runs[1].find("jain")->is_null());
  const json::Value& row = runs[0].find("rows")->as<json::Array>()->front();
  EXPECT_EQ(row.find("sent")->integer(), 2);
  EXPECT_NEAR(*row.find("ttft_p50")->number(), 0.3, 1e-9);
}

TEST(BenchReport, SvgEndsWhereTheCountsEnd) {
  const std::vector<BenchRun> runs{household()};
  const std::string svg = bench_svg(runs);
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("<title>ana</title>"), std::string::npos);
  EXPECT_NE(svg.find(">6</text>"), std::string::npos);  // ben's pieces, the most.
  EXPECT_EQ(bench_svg(runs), svg);
}

TEST(BenchRunBody, AsksForAnAnswerOfThatLength) {
  const Ask ask{"ana", "chat", 3, 4, 17};
  const auto body = json::parse(bench_body(ask, "", 1, 0));
  ASSERT_TRUE(body.has_value());
  EXPECT_EQ(body->find("model"), nullptr);
  EXPECT_EQ(body->find("max_tokens")->integer(), 17);
  EXPECT_EQ(*body->find("ignore_eos")->as<bool>(), true);
  const json::Array& messages = *body->find("messages")->as<json::Array>();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(*messages[0].find("role")->as<std::string>(), "system");
  EXPECT_EQ(*messages[0].find("content")->as<std::string>(), shared_words(4));
}

}  // namespace
}  // namespace lares::app
