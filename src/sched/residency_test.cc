// Which models are held, on a device with room for some of them, against a virtual clock.
#include <algorithm>
#include <deque>
#include <map>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/assert.h"
#include "sched/classes.h"
#include "sched/scheduler.h"

namespace lares::sched {
namespace {

using std::chrono::milliseconds, std::chrono::seconds;

constexpr DeviceId kDevice{0};

// A device that loads one model after the other beside its steps, and clients.
class House {
 public:
  House(std::uint32_t models, std::int64_t budget, Options options = {})
      : scheduler_(*Scheduler::create(with_classes(std::move(options)))), sizes_(models, 1 << 30) {
    events_.emplace_back(DeviceMemory{kDevice, Bytes{budget << 30}});
    for (std::uint32_t m = 0; m < models; ++m) need(m);
  }

  void need(std::uint32_t model, Duration keep = Duration::max(), bool pinned = false,
            bool wanted = false) {
    events_.emplace_back(ModelNeed{.model = ModelId{model},
                                   .device = kDevice,
                                   .bytes = Bytes{sizes_[model]},
                                   .file = ModelId{model},
                                   .reload = reload,
                                   .keep = keep,
                                   .pinned = pinned,
                                   .wanted = wanted});
  }

  // A gigabyte of it is its file's, and there once for all models of that.
  void share(std::uint32_t model, std::uint32_t file) {
    events_.emplace_back(ModelNeed{.model = ModelId{model},
                                   .device = kDevice,
                                   .bytes = Bytes{sizes_[model]},
                                   .shared = Bytes{1 << 30},
                                   .file = ModelId{file},
                                   .reload = reload});
  }

  void submit(std::uint32_t model, std::uint32_t prompt = 20, std::uint32_t output = 10,
              std::uint32_t cls = 1) {
    const std::uint64_t id = jobs_.size();
    jobs_.push_back({.model = model, .prompt = prompt, .output = output, .submitted = now_});
    events_.emplace_back(Submitted{
        JobId{id}, MemberId{0}, ClassId{cls}, TaskId{}, ModelId{model}, prompt, output, {}});
  }

  // Until then, or until nothing more happens.
  void run(Duration length) {
    const Instant end = now_ + length;
    while (true) {
      decide();
      Instant next = wake_;
      if (!runs_.empty()) next = std::min(next, runs_.front().ends);
      if (!loading_.empty()) next = std::min(next, loading_.front().second);
      if (next > end) break;
      now_ = std::max(now_, next);
      if (!runs_.empty() && runs_.front().ends <= now_) answer();
      if (!loading_.empty() && loading_.front().second <= now_) loaded();
    }
    now_ = end;
  }

  [[nodiscard]] bool resident(std::uint32_t model) const { return resident_.contains(model); }
  [[nodiscard]] std::size_t done() const {
    return static_cast<std::size_t>(std::ranges::count_if(jobs_, &Job::done));
  }
  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] Duration longest_wait() const {
    Duration longest{};
    for (const Job& job : jobs_) longest = std::max(longest, job.started - job.submitted);
    return longest;
  }
  [[nodiscard]] Instant now() const { return now_; }

  std::uint32_t loads = 0, unloads = 0;
  Duration reload = seconds(1);

 private:
  struct Job {
    std::uint32_t model = 0, prompt = 0, output = 0, cells = 0, made = 0;
    Instant submitted{}, started{};
    bool begun = false, done = false;
  };
  struct Run {
    RunId id;
    ModelId model;
    Instant ends;
    std::vector<StepItem> items;
  };

  static Options with_classes(Options options) {
    options.classes = household_classes();
    return options;
  }

  void decide() {
    while (true) {
      scheduler_.step(now_, events_, decision_);
      scheduler_.check();
      events_.clear();
      wake_ = decision_.wake_at;
      for (const Action& action : decision_.actions)
        std::visit([this](const auto& a) { act(a); }, action);
      if (events_.empty()) return;
    }
  }

  void act(const LoadModel& a) {
    ++loads;
    const Instant from = loading_.empty() ? now_ : loading_.back().second;
    loading_.emplace_back(a.model.value, from + reload);
  }
  void act(const UnloadModel& a) {
    ++unloads;
    EXPECT_TRUE(resident_.erase(a.model.value));
    for (const Run& run : runs_) EXPECT_NE(run.model, a.model);
  }
  void act(const OpenSequence& a) {
    EXPECT_TRUE(resident_.contains(a.model.value));
    jobs_[a.job.value].cells = a.from_tokens;
  }
  void act(const RunStep& a) {
    EXPECT_TRUE(resident_.contains(a.model.value));
    Run run{.id = a.run, .model = a.model, .ends = {}, .items = {}};
    run.items.assign(decision_.items.begin() + a.first,
                     decision_.items.begin() + a.first + a.count);
    for (const StepItem& item : run.items) {
      Job& job = jobs_[item.job.value];
      if (!std::exchange(job.begun, true)) job.started = now_;
    }
    run.ends = (runs_.empty() ? now_ : runs_.back().ends) + milliseconds(20);
    runs_.push_back(std::move(run));
  }
  void act(const DropSequence& /*a*/) {}
  void act(const RestoreState& /*a*/) { LARES_ASSERT(false, "no host memory was given"); }
  void act(const SaveState& /*a*/) { LARES_ASSERT(false, "no host memory was given"); }
  void act(const ForgetState& /*a*/) { LARES_ASSERT(false, "no host memory was given"); }
  void act(const Reject& a) { ADD_FAILURE() << "job " << a.job.value << " was rejected"; }

  void answer() {
    const Run run = std::move(runs_.front());
    runs_.pop_front();
    done_.clear();
    for (const StepItem& item : run.items) {
      Job& job = jobs_[item.job.value];
      job.cells += item.tokens;
      const bool sampled = !job.done && job.cells == job.prompt + job.made;
      if (sampled) ++job.made;
      done_.push_back({item.job, item.tokens, sampled});
    }
    events_.emplace_back(Stepped{kDevice, run.id, milliseconds(20), done_});
    for (const StepItem& item : run.items) {
      Job& job = jobs_[item.job.value];
      if (job.done || job.made < job.output) continue;
      job.done = true;
      events_.emplace_back(Ended{item.job, EndCause::Finished, {}});
    }
  }
  void loaded() {
    const std::uint32_t model = loading_.front().first;
    loading_.pop_front();
    resident_[model] = now_;
    events_.emplace_back(ModelReady{ModelId{model},
                                    kDevice,
                                    {.pool_tokens = 4096,
                                     .context = 4096,
                                     .sequences = 64,
                                     .batch_tokens = 512,
                                     .cut_anywhere = true}});
  }

  Scheduler scheduler_;
  std::vector<std::int64_t> sizes_;
  Instant now_{}, wake_ = Instant::max();
  std::vector<Job> jobs_;
  std::deque<Run> runs_;
  std::deque<std::pair<std::uint32_t, Instant>> loading_;
  std::map<std::uint32_t, Instant> resident_;
  std::vector<Event> events_;
  std::vector<ItemDone> done_;
  Decision decision_;
};

TEST(Residency, RequestsOfThreeModelsWithRoomForTwoAreCollated) {
  House house(3, 2);
  for (const char model : std::string("ABAACABC"))
    house.submit(static_cast<std::uint32_t>(model - 'A'));
  house.run(seconds(60));
  EXPECT_EQ(house.done(), 8U);
  EXPECT_EQ(house.loads, 3U);
  EXPECT_EQ(house.unloads, 1U);
}

TEST(Residency, WhoWaitsForAnAbsentModelWaitsNoLongerThanItsClassAllows) {
  House house(3, 2);
  // Two models have work without end; after a while somebody asks for the third.
  for (int second = 0; second < 40; ++second) {
    for (std::uint32_t i = 0; i < 4; ++i) house.submit(i % 2, 60, 60);
    if (second == 5) house.submit(2);
    house.run(seconds(1));
  }
  EXPECT_GE(house.loads, 3U);
  EXPECT_LE(house.longest_wait(), household_classes()[1].longest_wait + seconds(1));
  house.run(seconds(600));
  EXPECT_EQ(house.done(), house.jobs());
}

TEST(Residency, WhatSiblingsShareIsThereOnce) {
  House house(2, 3);
  // A gigabyte each of their own, and one that both use.
  house.share(0, 0);
  house.share(1, 0);
  house.submit(0);
  house.submit(1);
  house.run(seconds(10));
  EXPECT_EQ(house.done(), 2U);
  EXPECT_EQ(house.unloads, 0U);
  EXPECT_TRUE(house.resident(0) && house.resident(1));
}

TEST(Residency, TheLeastWorthLeaves) {
  House house(3, 2);
  house.submit(0);
  house.submit(1);
  for (int i = 0; i < 10; ++i) house.submit(0);  // Asked for more often.
  house.run(seconds(20));
  house.submit(2);
  house.run(seconds(20));
  EXPECT_TRUE(house.resident(0));
  EXPECT_FALSE(house.resident(1));
  EXPECT_TRUE(house.resident(2));
}

TEST(Residency, APinnedModelStaysAndAKeptOneLeavesInTime) {
  House house(3, 2);
  house.need(0, Duration::max(), true, true);
  house.need(1, seconds(30));
  house.run(seconds(5));
  EXPECT_TRUE(house.resident(0)) << "wanted though nobody asked";
  house.submit(1);
  house.run(seconds(25));
  EXPECT_TRUE(house.resident(1));
  house.run(seconds(10));
  EXPECT_FALSE(house.resident(1)) << "nobody used it for half a minute";
  house.submit(1);
  house.submit(2);
  house.run(seconds(30));
  EXPECT_TRUE(house.resident(0));
  EXPECT_TRUE(house.resident(2));
  EXPECT_EQ(house.done(), 3U);
}

TEST(Residency, AModelThatWasLoadedRunsForAWhile) {
  House house(2, 1);
  house.reload = seconds(4);
  house.need(0);
  house.need(1);
  // Both are wanted all the time: they take turns, none shorter than a load.
  for (int second = 0; second < 60; ++second) {
    house.submit(0, 20, 300);
    house.submit(1, 20, 300);
    house.run(seconds(1));
  }
  EXPECT_LE(house.loads, 60U / (4 + 4) + 1);
  house.run(seconds(300));
  EXPECT_EQ(house.done(), house.jobs());
}

RC_GTEST_PROP(Residency, AllAreServedWithinTheBudget, ()) {
  const auto models = *rc::gen::inRange<std::uint32_t>(1, 6);
  Options options;
  options.policy = *rc::gen::element<std::string>("lares", "orca", "vtc", "priority");
  const auto budget = *rc::gen::inRange<std::int64_t>(1, 4);
  House house(models, budget, options);  // House checks it.
  const auto steps =
      *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::arbitrary<std::uint32_t>());
  for (const std::uint32_t random : steps) {
    const std::uint32_t model = random / 8 % models;
    if (random % 8 < 5) {
      house.submit(model, 1 + random / 64 % 300, 1 + random / 4096 % 60, random / 16 % 3);
    } else if (random % 8 == 5) {
      house.need(model, seconds(random % 20), random % 3 == 0 && model == 0 && budget > 1);
    } else {
      house.run(milliseconds(random / 8 % 4000));
    }
  }
  house.run(std::chrono::hours(1));
  RC_ASSERT(house.done() == house.jobs());
}

}  // namespace
}  // namespace lares::sched
