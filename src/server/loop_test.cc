// The loop with real worker loops on threads, the sim engine and the byte tokenizer.
#include "server/loop.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <future>
#include <mutex>
#include <sstream>

#include "engine/sim.h"
#include "sched/event_log.h"
#include "server/killable_workers.h"
#include "text/byte_text.h"
#include "worker/supervisor_threads.h"

namespace lares::server {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

// Keeps what a generation brought, and calls a hook at every delta.
class Collector final : public GenerationSink {
 public:
  void on_event(GenerationEvent event) override {
    std::unique_lock lock(mutex_);
    if (std::holds_alternative<Accepted>(event)) accepted_model = std::get<Accepted>(event).model;
    if (auto* delta = std::get_if<TextDelta>(&event)) {
      texts[delta->choice] += delta->text;
      if (delta->finish != Finish::None) finish[delta->choice] = delta->finish;
      logprobs += delta->logprobs.size();
      ++deltas;
      if (on_delta) on_delta(deltas);
    }
    if (auto* told = std::get_if<QueueNews>(&event)) news.push_back(std::move(*told));
    if (auto* end = std::get_if<Ended>(&event)) ended = std::move(*end);
    changed_.notify_all();
  }

  // True when it ended in time.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return ended.has_value(); });
  }
  bool wait_deltas(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return deltas >= count || ended; });
  }

  std::string accepted_model;
  std::map<std::uint32_t, std::string> texts;
  std::map<std::uint32_t, Finish> finish;
  std::size_t logprobs = 0;
  int deltas = 0;
  std::vector<QueueNews> news;
  std::optional<Ended> ended;
  std::function<void(int)> on_delta;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class LoopTest : public ::testing::Test {
 protected:
  double states(const std::string& what) {
    return metrics.counter("lares_states_" + what + "_total", "").value();
  }

  void start(engine::SimOptions sim = {}) {
    sim.end_one_in = end_one_in;
    worker::ThreadOptions threads;
    threads.make_device_engine = [sim] { return std::make_unique<engine::SimEngine>(sim); };
    threads.make_text_engine = [] { return std::make_unique<text::ByteText>(); };
    threads.probe = [sim](const std::string& path) -> Result<engine::ModelInfo> {
      if (path == "bad") return fail(Code::Corrupt, "the file is truncated");
      return engine::sim_model_info(sim);
    };
    workers = std::make_shared<KillableWorkers>(worker::thread_workers(std::move(threads)));
    if (options.models.empty()) options.models = {{.name = "sim", .path = "sim"}};
    options.classes = {"voice", "chat"};
    auto started = start_loop(
        options, workers,
        [this](store::UsageRow row) {
          const std::lock_guard lock(rows_mutex);
          rows.push_back(std::move(row));
        },
        metrics);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    service = std::move(*started);
  }

  std::shared_ptr<Collector> ask(const std::string& text, std::uint32_t tokens = 64,
                                 std::uint64_t seed = 1) {
    Generation g = generation(text, tokens, seed);
    auto sink = std::make_shared<Collector>();
    service->submit(std::move(g), sink);
    return sink;
  }

  static Generation generation(const std::string& text, std::uint32_t tokens,
                               std::uint64_t seed = 1) {
    Generation g;
    g.prompt = TextPrompt{text};
    g.max_tokens = tokens;
    g.seed = seed;
    return g;
  }

  LoopOptions options;
  std::uint32_t end_one_in = 0;
  Metrics metrics;
  std::mutex rows_mutex;
  std::vector<store::UsageRow> rows;
  std::shared_ptr<KillableWorkers> workers;
  std::unique_ptr<Service> service;
};

TEST_F(LoopTest, AnswersWithTextUsageAndALedgerRow) {
  start();
  const auto answer = ask("hello there", 20);
  ASSERT_TRUE(answer->wait());
  EXPECT_FALSE(answer->ended->error.has_value());
  EXPECT_EQ(answer->accepted_model, "sim");
  EXPECT_EQ(answer->texts[0].size(), 20U);
  EXPECT_EQ(answer->finish[0], Finish::Length);
  EXPECT_EQ(answer->ended->usage.output_tokens, 20U);
  service.reset();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].outcome, store::Outcome::Done);
  EXPECT_EQ(rows[0].output_tokens, 20U);
  EXPECT_GT(rows[0].device.count(), 0);
  EXPECT_GE(rows[0].clocks.total, rows[0].clocks.first_token);
}

TEST_F(LoopTest, AnEndTokenEndsTheText) {
  end_one_in = 20;
  start();
  const auto answer = ask("hello", 1000);
  ASSERT_TRUE(answer->wait());
  EXPECT_EQ(answer->finish[0], Finish::Stop);
  EXPECT_LT(answer->texts[0].size(), 1000U);
  EXPECT_EQ(answer->ended->usage.output_tokens, answer->texts[0].size() + 1);  // The end counts.
}

TEST_F(LoopTest, AStopStringEndsTheTextBeforeIt) {
  start();
  const auto whole = ask("hello", 60);
  ASSERT_TRUE(whole->wait());
  Generation g = generation("hello", 60);
  g.stop = {whole->texts[0].substr(20, 3)};
  const auto cut = std::make_shared<Collector>();
  service->submit(std::move(g), cut);
  ASSERT_TRUE(cut->wait());
  EXPECT_EQ(cut->texts[0],
            whole->texts[0].substr(0, whole->texts[0].find(whole->texts[0].substr(20, 3))));
  EXPECT_EQ(cut->finish[0], Finish::Stop);
}

TEST_F(LoopTest, ChoicesDifferAndAreReproducible) {
  start();
  std::vector<std::map<std::uint32_t, std::string>> runs;
  for (int run = 0; run < 2; ++run) {
    Generation g = generation("tell me", 30, 42);
    g.n = 3;
    const auto sink = std::make_shared<Collector>();
    service->submit(std::move(g), sink);
    ASSERT_TRUE(sink->wait());
    EXPECT_EQ(sink->ended->usage.output_tokens, 90U);
    runs.push_back(sink->texts);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0][0], runs[0][1]);
  EXPECT_NE(runs[0][1], runs[0][2]);
}

TEST_F(LoopTest, StreamsGoOnWithTheSameTextWhenTheDeviceWorkerDies) {
  start();
  std::map<int, std::string> undisturbed;
  {
    std::vector<std::shared_ptr<Collector>> streams;
    for (int i = 0; i < 16; ++i) streams.push_back(ask("stream " + std::to_string(i), 120, i));
    for (int i = 0; i < 16; ++i) {
      ASSERT_TRUE(streams[i]->wait());
      undisturbed[i] = streams[i]->texts[0];
    }
  }
  std::vector<std::shared_ptr<Collector>> streams;
  for (int i = 0; i < 16; ++i) {
    Generation g = generation("stream " + std::to_string(i), 120, i);
    auto sink = std::make_shared<Collector>();
    if (i == 7) {
      sink->on_delta = [this](int count) {
        if (count == 10 || count == 50 || count == 90) workers->kill(worker::Kind::Device);
      };
    }
    service->submit(std::move(g), sink);
    streams.push_back(sink);
  }
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(streams[i]->wait());
    EXPECT_FALSE(streams[i]->ended->error.has_value());
    EXPECT_EQ(streams[i]->texts[0], undisturbed[i]) << i;
  }
  EXPECT_EQ(service->status().device_restarts, 3U);
}

TEST_F(LoopTest, AWorkerEndedForMemoryComesBackWithSmallerPools) {
  options.models = {{.name = "sim", .path = "sim", .pool_tokens = 4096}};
  start();
  const auto pool = [this] {
    std::promise<std::int64_t> bytes;
    service->memory([&](const MemoryStatus& status) {
      bytes.set_value(
          status.models.empty() ? 0 : status.models[0].kv.count + status.models[0].cache.count);
    });
    return bytes.get_future().get();
  };
  ASSERT_TRUE(ask("first", 2)->wait());
  const std::int64_t before = pool();
  ASSERT_GT(before, 0);
  auto stream = std::make_shared<Collector>();
  stream->on_delta = [this](int count) {
    if (count == 10) workers->kill_for_memory(worker::Kind::Device);
    if (count == 50) workers->kill(worker::Kind::Device);  // Not for memory: nothing shrinks.
  };
  service->submit(generation("a long text", 120), stream);
  ASSERT_TRUE(stream->wait());
  EXPECT_FALSE(stream->ended->error.has_value());
  EXPECT_EQ(service->status().device_restarts, 2U);
  EXPECT_EQ(pool(), before / 4 * 3);
}

// Four times what the pool holds: streams step back, are saved, and go on with the same text.
TEST_F(LoopTest, AnOverfullPoolFailsNobodyAndChangesNoText) {
  options.scheduler.cache_tokens = 0;
  options.scheduler.output_expected = 0;
  options.host_memory = Bytes{std::int64_t{1} << 30U};
  engine::SimOptions sim;
  sim.pool_tokens = 1024;
  start(sim);
  constexpr int kStreams = 20;
  const auto prompt = [](int i) {
    return std::string(40 + static_cast<std::size_t>(i) * 5, static_cast<char>('a' + i));
  };
  std::vector<std::shared_ptr<Collector>> streams;
  for (int i = 0; i < kStreams; ++i) streams.push_back(ask(prompt(i), 120, i));
  for (int i = 0; i < kStreams; ++i) {
    ASSERT_TRUE(streams[i]->wait());
    EXPECT_FALSE(streams[i]->ended->error.has_value());
    EXPECT_EQ(streams[i]->ended->usage.cached_tokens, 0U);  // Its own words, come back, are not.
  }
  EXPECT_GT(states("saved"), 0);
  EXPECT_GT(states("restored"), 0);
  for (int i = 0; i < kStreams; ++i) {
    const auto alone = ask(prompt(i), 120, i);
    ASSERT_TRUE(alone->wait());
    EXPECT_EQ(streams[i]->texts[0], alone->texts[0]) << i;
  }
}

TEST_F(LoopTest, NobodyStreamingNoticesThatTheTextWorkerDies) {
  start();
  auto stream = std::make_shared<Collector>();
  stream->on_delta = [this](int count) {
    if (count == 5 || count == 100) workers->kill(worker::Kind::Text);
  };
  service->submit(generation("a stream", 400), stream);
  ASSERT_TRUE(stream->wait_deltas(6));
  const auto later = ask("after the text worker died", 5);
  ASSERT_TRUE(later->wait());
  EXPECT_FALSE(later->ended->error.has_value());
  ASSERT_TRUE(stream->wait());
  EXPECT_FALSE(stream->ended->error.has_value());
  EXPECT_EQ(stream->texts[0].size(), 400U);
}

TEST_F(LoopTest, CancelEndsItSoonAndFreesItsCells) {
  options.scheduler.cache_tokens = 0;
  engine::SimOptions sim;
  sim.pool_tokens = 4096;
  start(sim);
  auto stream = std::make_shared<Collector>();
  const JobId id = service->submit(generation("a stream", 3000), stream);
  ASSERT_TRUE(stream->wait_deltas(3));
  EXPECT_TRUE(service->cancel(id));
  ASSERT_TRUE(stream->wait());
  EXPECT_EQ(stream->ended->error_code, "cancelled");
  EXPECT_LT(stream->texts[0].size(), 3000U);
  const auto whole_pool = ask(std::string(3900, 'x'), 100);
  ASSERT_TRUE(whole_pool->wait());
  EXPECT_FALSE(whole_pool->ended->error.has_value());
  EXPECT_FALSE(service->cancel(id));
}

TEST_F(LoopTest, WhatCannotBeIsRefusedWithTheNumbers) {
  engine::SimOptions sim;
  sim.pool_tokens = 1024;
  start(sim);
  struct Case {
    std::function<void(Generation&)> change;
    std::string code, words;
  };
  const std::vector<Case> cases{
      {[](Generation& g) { g.model = "sin"; }, "model_not_found", "Did you mean `sim`?"},
      {[](Generation& g) { g.cls = "voise"; }, "class_unknown", "Did you mean `voice`?"},
      {[](Generation& g) { g.max_tokens = 5000; }, "context_length_exceeded", "takes 4096"},
      {[](Generation& g) { g.max_tokens = 2000; }, "kv_never_fits", "holds 1024"},
      {[](Generation& g) { g.prompt = TextPrompt{std::string(2000, 'x')}; }, "kv_never_fits",
       "2000 tokens"},
      {[](Generation& g) {
         g.prompt = TokenPrompt{{5, 999}};
       },
       "token_unknown", "token 999"},
      {[](Generation& g) { g.prompt = TokenPrompt{}; }, "prompt_empty", "empty"},
      {[](Generation& g) {
         g.prompt = ChatPrompt{"[]", "", ""};
       },
       "prompt_invalid", ""},
  };
  for (const Case& c : cases) {
    Generation g = generation("hello", 5);
    c.change(g);
    const auto sink = std::make_shared<Collector>();
    service->submit(std::move(g), sink);
    ASSERT_TRUE(sink->wait()) << c.code;
    ASSERT_TRUE(sink->ended->error.has_value()) << c.code;
    EXPECT_EQ(sink->ended->error_code, c.code) << sink->ended->error->message;
    EXPECT_NE(sink->ended->error->message.find(c.words), std::string::npos)
        << sink->ended->error->message;
    EXPECT_EQ(sink->accepted_model, "") << c.code;
  }
  const auto fine = ask("hello", 5);
  ASSERT_TRUE(fine->wait());
  EXPECT_FALSE(fine->ended->error.has_value());
  service.reset();
  EXPECT_EQ(rows.size(), cases.size() + 1);
  EXPECT_EQ(rows[0].outcome, store::Outcome::Refused);
}

TEST_F(LoopTest, ARequestThatNamesNoLimitGetsWhatFits) {
  engine::SimOptions sim;
  sim.pool_tokens = 1024;
  start(sim);
  Generation g = generation(std::string(1000, 'x'), 1);
  g.max_tokens.reset();
  const auto sink = std::make_shared<Collector>();
  service->submit(std::move(g), sink);
  ASSERT_TRUE(sink->wait());
  EXPECT_FALSE(sink->ended->error.has_value()) << sink->ended->error->message;
  EXPECT_EQ(sink->texts[0].size(), 24U);
}

TEST_F(LoopTest, ABadModelFileIsAnErrorForThatModelOnly) {
  options.models = {{.name = "bad", .path = "bad"}, {.name = "good", .path = "good"}};
  start();
  Generation g = generation("hello", 5);
  g.model = "bad";
  const auto bad = std::make_shared<Collector>();
  service->submit(std::move(g), bad);
  ASSERT_TRUE(bad->wait());
  EXPECT_EQ(bad->ended->error_code, "model_failed");
  EXPECT_NE(bad->ended->error->message.find("truncated"), std::string::npos);
  const auto good = ask("hello", 5);
  ASSERT_TRUE(good->wait());
  EXPECT_EQ(good->accepted_model, "good");
}

TEST_F(LoopTest, AnAliasTakesTheLoadedModelUnlessItsClassWouldRatherWait) {
  options.models = {{"large", "l"}, {"small", "s"}};
  options.default_model = "small";
  options.aliases = {{"assistant", {"gone", "large", "small"}}, {"nobody", {"gone"}}};
  options.better_classes = {"voice"};
  start();
  ASSERT_TRUE(ask("loads the small one", 5)->wait());
  Generation g = generation("hello", 5);
  g.model = "assistant";
  const auto soon = std::make_shared<Collector>();
  service->submit(g, soon);
  ASSERT_TRUE(soon->wait());
  EXPECT_EQ(soon->accepted_model, "small");
  g.cls = "voice";
  const auto better = std::make_shared<Collector>();
  service->submit(g, better);
  ASSERT_TRUE(better->wait());
  EXPECT_EQ(better->accepted_model, "large");
  g.cls = "chat";  // Both are loaded now.
  const auto best = std::make_shared<Collector>();
  service->submit(g, best);
  ASSERT_TRUE(best->wait());
  EXPECT_EQ(best->accepted_model, "large");
  const std::vector<ModelStatus> shown = service->models();
  ASSERT_EQ(shown.size(), 3U);  // The alias, too, that has a model.
  EXPECT_EQ(shown[2].name, "assistant");
  EXPECT_EQ(shown[2].state, "ready");
  EXPECT_EQ(loads_json(shown), R"({"object":"loads","loads":{"large":1,"small":1},"unloads":)"
                               R"({"large":0,"small":0}})");
  g.model = "nobody";
  const auto nobody = std::make_shared<Collector>();
  service->submit(g, nobody);
  ASSERT_TRUE(nobody->wait());
  EXPECT_EQ(nobody->ended->error_code, "model_not_found");
}

TEST_F(LoopTest, AFollowUpFindsItsBeginningInTheCache) {
  start();
  const std::string first(640, 'a');
  ASSERT_TRUE(ask(first, 8)->wait());
  const auto next = ask(first + " and more", 8);
  ASSERT_TRUE(next->wait());
  EXPECT_EQ(next->ended->usage.cached_tokens, 640U);
}

TEST_F(LoopTest, LogprobsComeForEveryToken) {
  start();
  Generation g = generation("hello", 12);
  g.sampling.want_logprob = true;
  const auto sink = std::make_shared<Collector>();
  service->submit(std::move(g), sink);
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->logprobs, 12U);
}

TEST_F(LoopTest, AHundredRequestsAtOnceAllEndAndTheEventLogReplays) {
  const std::string file = ::testing::TempDir() + "lares_loop_events.log";
  options.event_log = file;
  options.scheduler.running_max = 16;
  end_one_in = 60;
  engine::SimOptions sim;
  sim.pool_tokens = 4096;  // Tight: jobs step back.
  start(sim);
  std::vector<std::shared_ptr<Collector>> sinks;
  std::vector<JobId> ids;
  for (int i = 0; i < 100; ++i) {
    auto sink = std::make_shared<Collector>();
    if (i == 30)
      sink->on_delta = [this](int count) {
        if (count == 3) workers->kill(worker::Kind::Device);
      };
    ids.push_back(service->submit(generation(std::string(10 + i * 7, 'a'), 100, i), sink));
    sinks.push_back(sink);
  }
  for (int i = 0; i < 100; i += 9) service->cancel(ids[i]);
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->wait());
    EXPECT_TRUE(!sink->ended->error || sink->ended->error_code == "cancelled")
        << sink->ended->error->message;
  }
  EXPECT_EQ(service->status().running + service->status().waiting, 0U);
  service.reset();
  EXPECT_EQ(rows.size(), 100U);
  std::ifstream in(file);
  std::stringstream log;
  log << in.rdbuf();
  const auto report = sched::replay(log.str());
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_GT(report->steps, 50U);
  std::remove(file.c_str());
}

TEST_F(LoopTest, WhoUsedAllOfADayIsToldWhenToComeAgain) {
  const std::int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
  const MemberShare ana{.id = MemberId{1}, .name = "ana", .limits = {.tokens_a_day = 1000}};
  options.past_use = {{ana.id, now_ms - 3'600'000, {970, {}}}};
  start();
  const auto ask_as = [this](const MemberShare& member) {
    Generation g = generation("hello", 25);
    g.member = member;
    auto sink = std::make_shared<Collector>();
    service->submit(std::move(g), sink);
    return sink;
  };
  const auto last = ask_as(ana);  // Begun below the limit, it is not ended at it.
  ASSERT_TRUE(last->wait());
  EXPECT_FALSE(last->ended->error);
  EXPECT_EQ(last->ended->usage.output_tokens, 25U);
  const auto refused = ask_as(ana);
  ASSERT_TRUE(refused->wait());
  ASSERT_TRUE(refused->ended->error);
  EXPECT_EQ(refused->ended->error->code, Code::Busy);
  EXPECT_EQ(refused->ended->error_code, "member_quota");
  EXPECT_NE(refused->ended->error->message.find("ana used 1000 of 1000 tokens"), std::string::npos)
      << refused->ended->error->message;
  EXPECT_GT(refused->ended->retry_after, std::chrono::hours(22));
  EXPECT_LT(refused->ended->retry_after, std::chrono::hours(24));
  const auto other = ask_as({.id = MemberId{2}, .name = "ben", .limits = {.tokens_a_day = 1000}});
  ASSERT_TRUE(other->wait());
  EXPECT_FALSE(other->ended->error);
}

TEST_F(LoopTest, AStreamThatAsksHearsWhereItStands) {
  options.scheduler.running_max = 1;
  start();
  const auto first = std::make_shared<Collector>(), deaf = std::make_shared<Collector>(),
             last = std::make_shared<Collector>();
  first->on_delta = [&](int count) {
    if (count != 1) return;
    service->submit(generation("me too", 5), deaf);
    Generation g = generation("and me", 5);
    g.queue_events = true;
    service->submit(std::move(g), last);
  };
  service->submit(generation("hello", 1000), first);
  ASSERT_TRUE(first->wait() && deaf->wait() && last->wait());
  EXPECT_TRUE(deaf->news.empty());
  EXPECT_FALSE(last->ended->error);
  EXPECT_EQ(last->texts.size(), 1U);
  ASSERT_FALSE(last->news.empty());
  EXPECT_EQ(last->news[0].position, 1U);
  EXPECT_EQ(last->news[0].reason, "waiting for memory");
  for (std::size_t i = 1; i < last->news.size(); ++i)
    EXPECT_LE(last->news[i].position, last->news[i - 1].position);
  service.reset();
  EXPECT_NE(metrics.text().find("lares_queue_estimate_error_seconds_count 1"), std::string::npos);
}

TEST_F(LoopTest, AfterItStoppedEverythingIsTurnedAway) {
  start();
  service->stop();
  const auto late = ask("too late", 5);
  ASSERT_TRUE(late->wait());
  EXPECT_EQ(late->ended->error_code, "server_stopping");
}

TEST_F(LoopTest, StoppingEndsWhatRuns) {
  start();
  const auto stream = ask("a stream", 3000);
  ASSERT_TRUE(stream->wait_deltas(2));
  service.reset();
  ASSERT_TRUE(stream->ended.has_value());
  EXPECT_EQ(stream->ended->error_code, "server_stopping");
  EXPECT_EQ(rows.size(), 1U);
}

}  // namespace
}  // namespace lares::server
