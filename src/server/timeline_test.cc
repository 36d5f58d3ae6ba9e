#include "server/timeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/json.h"

namespace lares::server {
namespace {

using std::chrono::milliseconds;

constexpr Instant kStart{std::chrono::seconds(100)};
constexpr MemberId kAna{1}, kBen{2};

Instant at(int ms) {
  return kStart + milliseconds(ms);
}

json::Value read(const Timeline& timeline, MemberId who, bool admin, std::uint64_t since = 0) {
  auto parsed = json::parse(timeline.json(since, {who, admin}, at(1000)), {.values = 1U << 22U});
  EXPECT_TRUE(parsed) << parsed.error().message;
  return std::move(*parsed);
}

const json::Array& steps_of(const json::Value& answer) {
  return *answer.find("steps")->as<json::Array>();
}

double number(const json::Value& value, std::string_view name) {
  return value.find(name)->number().value_or(-1);
}

// A step that ended at `end` ms and took `device` ms, of one member.
void step(Timeline& timeline, const char* model, int end, int device, MemberId who = kAna) {
  timeline.stepped(model, at(end), milliseconds(device), 4);
  timeline.charged(who, who == kAna ? "ana" : "ben", "chat", milliseconds(device));
  timeline.settle();
}

TEST(Timeline, AStepIsWhosItIs) {
  Timeline timeline(kStart);
  timeline.stepped("big", at(50), milliseconds(20), 7);
  timeline.charged(kAna, "ana", "voice", milliseconds(5));
  timeline.charged(kBen, "ben", "chat", milliseconds(9));
  timeline.charged(kAna, "ana", "voice", milliseconds(6));
  timeline.settle();
  const json::Value all = read(timeline, kAna, true);
  EXPECT_EQ(number(all, "now"), 1.0);
  ASSERT_EQ(steps_of(all).size(), 1U);
  const json::Value& one = steps_of(all)[0];
  EXPECT_EQ(number(one, "start"), 0.03);
  EXPECT_EQ(number(one, "end"), 0.05);
  EXPECT_EQ(*one.find("model")->as<std::string>(), "big");
  EXPECT_EQ(json::to_text(*one.find("shares")),
            R"([{"member":"ana","class":"voice","device_s":0.011},)"
            R"({"member":"ben","class":"chat","device_s":0.009}])");
}

TEST(Timeline, OthersAreNobody) {
  Timeline timeline(kStart);
  timeline.stepped("big", at(50), milliseconds(20), 7);
  timeline.charged(kAna, "ana", "voice", milliseconds(5));
  timeline.charged(kBen, "ben", "chat", milliseconds(9));
  timeline.charged(MemberId{3}, "cleo", "image", milliseconds(6));
  timeline.settle();
  const json::Value mine = read(timeline, kAna, false);
  EXPECT_EQ(json::to_text(*steps_of(mine)[0].find("shares")),
            R"([{"member":"ana","class":"voice","device_s":0.005},)"
            R"({"member":null,"class":null,"device_s":0.015}])");
  const std::string text = timeline.json(0, {MemberId{9}, false}, at(1000));
  for (const char* name : {"ana", "ben", "cleo", "voice", "chat", "image"})
    EXPECT_EQ(text.find(name), std::string::npos) << text;
}

TEST(Timeline, ChargesGoToTheirSteps) {
  Timeline timeline(kStart);
  timeline.stepped("a", at(50), milliseconds(20), 1);
  timeline.stepped("b", at(90), milliseconds(30), 1);
  timeline.charged(kAna, "ana", "chat", milliseconds(8));
  timeline.charged(kBen, "ben", "chat", milliseconds(12));
  timeline.charged(kBen, "ben", "chat", milliseconds(30));
  timeline.settle();
  const json::Value all = read(timeline, kAna, true);
  ASSERT_EQ(steps_of(all).size(), 2U);
  EXPECT_EQ(steps_of(all)[0].find("shares")->as<json::Array>()->size(), 2U);
  const json::Value& second = steps_of(all)[1];
  ASSERT_EQ(second.find("shares")->as<json::Array>()->size(), 1U);
  EXPECT_EQ(number((*second.find("shares")->as<json::Array>())[0], "device_s"), 0.03);
  timeline.charged(kAna, "ana", "chat", milliseconds(8));  // Of nothing.
  timeline.settle();
  EXPECT_EQ(steps_of(read(timeline, kAna, true)).size(), 2U);
}

TEST(Timeline, LikeStepsBecomeOneUpToALength) {
  Timeline timeline(kStart);
  for (int i = 1; i <= 50; ++i) step(timeline, "a", 10 * i, 10);
  const json::Value all = read(timeline, kAna, true);
  ASSERT_EQ(steps_of(all).size(), 5U);
  for (const json::Value& entry : steps_of(all)) {
    EXPECT_EQ(number(entry, "steps"), 10);
    EXPECT_EQ(number(entry, "tokens"), 40);
    EXPECT_NEAR(number(entry, "device_s"), 0.1, 1e-9);
  }
  step(timeline, "a", 560, 10);        // After a gap.
  step(timeline, "b", 570, 10);        // Another model.
  step(timeline, "b", 580, 10, kBen);  // Another member.
  EXPECT_EQ(steps_of(read(timeline, kAna, true)).size(), 8U);
}

TEST(Timeline, ReadFromTheLastOneOnNothingIsMissed) {
  Timeline timeline(kStart);
  step(timeline, "a", 10, 10);
  const json::Value first = read(timeline, kAna, true);
  const auto next = static_cast<std::uint64_t>(number(first, "next"));
  step(timeline, "a", 20, 10);  // The last one grows.
  step(timeline, "b", 30, 10);
  const json::Value second = read(timeline, kAna, true, next);
  ASSERT_EQ(steps_of(second).size(), 2U);
  EXPECT_EQ(number(steps_of(second)[0], "n"), static_cast<double>(next));
  EXPECT_EQ(number(steps_of(second)[0], "steps"), 2);
  EXPECT_EQ(steps_of(read(timeline, kAna, true, next + 5)).size(), 0U);
}

TEST(Timeline, IsBounded) {
  Timeline timeline(kStart);
  for (std::size_t i = 0; i < Timeline::kEntriesMax + 10; ++i)
    step(timeline, i % 2 == 0 ? "a" : "b", static_cast<int>(i) + 1, 1);
  const json::Value all = read(timeline, kAna, true);
  EXPECT_EQ(steps_of(all).size(), Timeline::kAnswerMax);
  EXPECT_EQ(number(steps_of(all).back(), "n"), Timeline::kEntriesMax + 10.0);
  // Many members in one step: the first are told apart, the rest are one, and nothing is lost.
  Timeline crowd(kStart);
  crowd.stepped("a", at(100), milliseconds(20), 20);
  for (std::uint32_t i = 0; i < 20; ++i)
    crowd.charged(MemberId{i}, "m" + std::to_string(i), "chat", milliseconds(1));
  crowd.settle();
  const json::Value many = read(crowd, kAna, true);
  double sum = 0;
  for (const json::Value& share : *steps_of(many)[0].find("shares")->as<json::Array>())
    sum += number(share, "device_s");
  EXPECT_NEAR(sum, 0.02, 1e-9);
}

TEST(Timeline, ReadersSeeWholeEntriesWhileTheLoopWrites) {
  Timeline timeline(kStart);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      const json::Value told = read(timeline, kAna, true);  // What is gone over lives in it.
      for (const json::Value& entry : steps_of(told)) {
        double sum = 0;
        for (const json::Value& share : *entry.find("shares")->as<json::Array>())
          sum += number(share, "device_s");
        ASSERT_NEAR(sum, number(entry, "device_s"), 1e-5);
      }
    }
  });
  for (int i = 1; i <= 3000; ++i) step(timeline, i % 3 == 0 ? "a" : "b", i, 1, i % 2 ? kAna : kBen);
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace lares::server
