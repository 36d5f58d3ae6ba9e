// Graphs beside streams of text, on a device that tells what time it took.
#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "sched/classes.h"
#include "sched/event_log.h"
#include "sched/scheduler.h"

namespace lares::sched {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ModelId kText{0}, kPictures{1};
constexpr ClassId kChat{1}, kImage{4};

// Does runs one after the other; a pass takes as long as it is told.
class Device {
 public:
  explicit Device(Duration pass, Options options = household()) : pass_time_(pass) {
    append_options(log, options);
    scheduler_.emplace(std::move(*Scheduler::create(options)));
    CostTable cost;
    events_.emplace_back(
        ModelReady{kText,
                   DeviceId{0},
                   {.pool_tokens = 8192, .context = 4096, .sequences = 16, .batch_tokens = 512},
                   cost});
    events_.emplace_back(
        ModelReady{kPictures,
                   DeviceId{0},
                   {.sequences = 8, .batch_tokens = 4, .cut_anywhere = false, .graphs = true},
                   {}});
    decide();
  }

  static Options household() {
    Options options;
    options.classes = household_classes();
    return options;
  }

  void picture(std::uint64_t id, std::uint32_t passes, std::uint64_t key = 7,
               std::uint32_t member = 1) {
    passes_[id] = passes;
    events_.emplace_back(Submitted{.job = JobId{id},
                                   .member = MemberId{member},
                                   .cls = kImage,
                                   .task = {},
                                   .model = kPictures,
                                   .prompt = passes,
                                   .output_max = 0,
                                   .blocks = {},
                                   .batch_key = key});
  }

  void stream(std::uint64_t id, std::uint32_t tokens, std::uint32_t member = 2) {
    streams_[id] = tokens;
    events_.emplace_back(Submitted{.job = JobId{id},
                                   .member = MemberId{member},
                                   .cls = kChat,
                                   .task = {},
                                   .model = kText,
                                   .prompt = 8,
                                   .output_max = tokens,
                                   .blocks = {}});
  }

  void end(std::uint64_t id, EndCause cause) {
    passes_.erase(id);
    events_.emplace_back(Ended{JobId{id}, cause, {}});
    if (cause == EndCause::Finished) finished.push_back(id);
  }

  void lose() {
    runs_.clear();
    spent_ = {};
    events_.emplace_back(DeviceLost{DeviceId{0}});
    events_.emplace_back(
        ModelReady{kText,
                   DeviceId{0},
                   {.pool_tokens = 8192, .context = 4096, .sequences = 16, .batch_tokens = 512},
                   {}});
    events_.emplace_back(
        ModelReady{kPictures,
                   DeviceId{0},
                   {.sequences = 8, .batch_tokens = 4, .cut_anywhere = false, .graphs = true},
                   {}});
  }

  void decide() {
    scheduler_->step(now, events_, decision_);
    scheduler_->check();
    append_step(log, now, events_, decision_);
    events_.clear();
    items_.clear();
    for (const Charge& charge : decision_.charges) charged[charge.member.value] += charge.device;
    for (const Action& action : decision_.actions) {
      if (const auto* run = std::get_if<RunStep>(&action)) {
        runs_.push_back({*run,
                         {decision_.items.begin() + run->first,
                          decision_.items.begin() + run->first + run->count}});
      }
      if (const auto* rejected = std::get_if<Reject>(&action)) {
        ADD_FAILURE() << "rejected " << rejected->job.value;
      }
    }
  }

  // Does the oldest run.
  bool answer() {
    if (runs_.empty()) {
      if (decision_.wake_at == Instant::max()) return false;
      now = std::max(now, decision_.wake_at);
      return true;
    }
    const Sent sent = std::move(runs_.front());
    runs_.pop_front();
    sent.run.model == kPictures ? do_slice(sent) : do_step(sent);
    return true;
  }

  void run_until_idle(int most = 200000) {
    for (int i = 0; i < most; ++i) {
      decide();
      if (!answer()) return;
    }
    FAIL() << "still busy";
  }

  Instant now{};
  std::string log;
  std::vector<std::uint64_t> finished;
  std::vector<std::vector<std::uint64_t>> passes;  // Who was in each pass that was finished.
  std::map<std::uint32_t, Duration> charged;       // By member.
  Duration longest_slice{}, longest_gap{};
  std::size_t slices = 0;

 private:
  struct Sent {
    RunStep run;
    std::vector<StepItem> items;
  };

  void do_slice(const Sent& sent) {
    ++slices;
    EXPECT_GT(sent.run.slice, Duration{});
    std::vector<std::uint64_t> all, live;
    for (const StepItem& item : sent.items) {
      all.push_back(item.job.value);
      if (passes_.contains(item.job.value)) live.push_back(item.job.value);
    }
    if (pass_of_.empty()) pass_of_ = all;
    // Nodes of a millisecond.
    const Duration left = live.empty() ? Duration(1) : pass_time_ - spent_;
    const Duration took = std::min(left, std::max<Duration>(sent.run.slice, milliseconds(1)));
    longest_slice = std::max(longest_slice, took);
    now += took;
    spent_ += took;
    const bool done = took == left;
    auto& items = items_.emplace_back();
    for (const StepItem& item : sent.items) {
      const bool wanted = done && passes_.contains(item.job.value);
      items.push_back({item.job, wanted ? 1U : 0U, false});
    }
    events_.emplace_back(Stepped{DeviceId{0}, sent.run.run, took, items, done});
    if (!done) return;
    spent_ = {};
    pass_of_.clear();
    passes.push_back(live);
    for (const std::uint64_t id : live) {
      if (--passes_.at(id) == 0) end(id, EndCause::Finished);
    }
  }

  void do_step(const Sent& sent) {
    StepShape shape;
    for (const StepItem& item : sent.items) shape.tokens += item.tokens;
    const Duration took = CostTable().time(shape);
    now += took;
    auto& items = items_.emplace_back();
    std::vector<std::uint64_t> done;
    for (const StepItem& item : sent.items) {
      const std::uint64_t id = item.job.value;
      if (!streams_.contains(id)) {
        items.push_back({item.job, 0, false});
        continue;
      }
      std::uint32_t& known = known_[id];
      known += item.tokens;
      const bool sampled = known >= 8;
      items.push_back({item.job, item.tokens, sampled});
      if (!sampled) continue;
      if (last_.contains(id)) longest_gap = std::max(longest_gap, now - last_[id]);
      last_[id] = now;
      if (--streams_[id] == 0) done.push_back(id);
    }
    events_.emplace_back(Stepped{DeviceId{0}, sent.run.run, took, items});
    for (const std::uint64_t id : done) {
      streams_.erase(id);
      end(id, EndCause::Finished);
    }
  }

  const Duration pass_time_;
  std::optional<Scheduler> scheduler_;
  Decision decision_;
  std::vector<Event> events_;
  std::deque<std::vector<ItemDone>> items_;
  std::deque<Sent> runs_;
  std::map<std::uint64_t, std::uint32_t> passes_, streams_, known_;
  std::map<std::uint64_t, Instant> last_;
  std::vector<std::uint64_t> pass_of_;
  Duration spent_{};
};

TEST(Graphs, APictureIsDoneInAsManyPassesAsItHas) {
  Device device(milliseconds(30));
  device.picture(1, 5);
  device.run_until_idle();
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{1});
  EXPECT_EQ(device.passes.size(), 5U);
  EXPECT_EQ(device.charged[1], milliseconds(150));
}

TEST(Graphs, ALongPassIsCutIntoSlices) {
  Device device(seconds(1));
  device.picture(1, 2);
  device.run_until_idle();
  EXPECT_EQ(device.passes.size(), 2U);
  EXPECT_GE(device.slices, 20U);
  EXPECT_LE(device.longest_slice, milliseconds(100));
}

TEST(Graphs, EqualKeysShareAPassAtDifferentSteps) {
  Device device(milliseconds(30));
  device.picture(1, 4);
  device.decide();
  device.picture(2, 4, 7, 2);  // Joins at the next pass.
  device.picture(3, 4, 9, 3);  // Another shape.
  device.run_until_idle();
  EXPECT_EQ(device.passes[0], std::vector<std::uint64_t>{1});
  std::size_t shared = 0;
  for (const auto& pass : device.passes) {
    shared += pass.size() == 2 ? 1 : 0;
    const bool other = std::ranges::find(pass, 3U) != pass.end();
    EXPECT_TRUE(!other || pass.size() == 1);
  }
  EXPECT_EQ(shared, 3U);
  EXPECT_EQ(device.finished.size(), 3U);
}

TEST(Graphs, AKeyOfZeroIsAlone) {
  Device device(milliseconds(30));
  device.picture(1, 2, 0);
  device.picture(2, 2, 0, 2);
  device.run_until_idle();
  for (const auto& pass : device.passes) EXPECT_EQ(pass.size(), 1U);
}

TEST(Graphs, CancelTakesEffectAtTheNextSlice) {
  Device device(seconds(10));
  device.picture(1, 3);
  device.picture(2, 1, 9, 2);
  device.decide();
  device.answer();
  device.decide();
  const std::size_t slices = device.slices;
  device.end(1, EndCause::Cancelled);
  device.decide();
  device.answer();
  EXPECT_EQ(device.slices, slices + 1);
  device.run_until_idle();
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{2});
}

TEST(Graphs, APassThatDiesWithItsWorkerBeginsAgain) {
  Device device(seconds(1));
  device.picture(1, 2);
  for (int i = 0; i < 15; ++i) {
    device.decide();
    device.answer();
  }
  device.lose();
  device.run_until_idle();
  EXPECT_EQ(device.finished, std::vector<std::uint64_t>{1});
}

TEST(Graphs, TheLogIsReplayed) {
  Device device(milliseconds(300));
  device.picture(1, 3);
  device.picture(2, 3, 0, 3);
  device.stream(5, 20);
  device.run_until_idle();
  const auto report = replay(device.log);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->steps, 20U);
}

TEST(Graphs, MembersShareTheDeviceBetweenTextAndPictures) {
  Device device(milliseconds(50));
  device.picture(1, 1000);
  device.stream(5, 2000);
  for (int i = 0; i < 1000; ++i) {
    device.decide();
    device.answer();
  }
  const double ratio = static_cast<double>(device.charged[1].count()) /
                       static_cast<double>(device.charged[2].count());
  EXPECT_GT(ratio, 0.7);
  EXPECT_LT(ratio, 1.4);
}

// With a picture always in the queue, a stream waits no longer between two tokens than its class
// allows, a slice that could not be stopped and a step.
RC_GTEST_PROP(Graphs, StreamsGoOnBesidePictures, ()) {
  Device device(milliseconds(*rc::gen::inRange(1, 3000)));
  const auto streams = *rc::gen::inRange<std::uint64_t>(1, 6);
  for (std::uint64_t i = 0; i < streams; ++i) {
    device.stream(100 + i, *rc::gen::inRange<std::uint32_t>(2, 60),
                  *rc::gen::inRange<std::uint32_t>(1, 4));
  }
  for (std::uint64_t i = 1; i <= 4; ++i) {
    device.picture(i, *rc::gen::inRange<std::uint32_t>(1, 20),
                   *rc::gen::inRange<std::uint64_t>(0, 3), *rc::gen::inRange<std::uint32_t>(1, 4));
  }
  device.run_until_idle();
  RC_ASSERT(device.finished.size() == streams + 4);
  const Duration gap = household_classes()[kChat.value].gap_target;
  RC_ASSERT(device.longest_gap <= gap + milliseconds(100) + CostTable().time({.tokens = 128}));
  RC_ASSERT(replay(device.log).has_value());
}

}  // namespace
}  // namespace lares::sched
