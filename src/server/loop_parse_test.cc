// Answers in parts, through the loop: sim engine, byte tokenizer, and a text worker that fails in
// the ways a real one can.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/sim.h"
#include "server/loop.h"
#include "text/byte_text.h"
#include "worker/supervisor_threads.h"

namespace lares::server {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);
constexpr auto kTextLimit = std::chrono::milliseconds(2000);
const std::string kTools = R"([{"type":"function","function":{"name":"x"}}])";

// What a text worker's parser does wrong.
struct Faults {
  std::atomic<bool> fails{false};    // Every answer has the wrong form.
  std::atomic<bool> strict{false};   // Whole answers have.
  std::atomic<bool> forgets{false};  // It forgets the parser after each question.
  std::atomic<bool> slow{false};     // The next question takes longer than is allowed.
  std::atomic<int> questions{0}, starts{0}, parsers{0};
};

class FaultyText final : public text::TextEngine {
 public:
  explicit FaultyText(std::shared_ptr<Faults> faults) : faults_(std::move(faults)) {
    ++faults_->starts;
  }
  Result<text::Vocabulary> load(ModelId model, const std::string& path) override {
    return inner_.load(model, path);
  }
  void unload(ModelId model) override { inner_.unload(model); }
  Result<text::Rendered> render(const text::RenderChat& chat) override {
    return inner_.render(chat);
  }
  Result<std::vector<std::int32_t>> tokenize(const text::Tokenize& request) override {
    return inner_.tokenize(request);
  }
  Result<text::ParsedChat> parse(const text::ParseChat& chat) override {
    ++faults_->questions;
    if (chat.parser) ++faults_->parsers;
    if (faults_->fails) return fail(Code::Invalid, "no");
    if (faults_->strict && !chat.partial) return fail(Code::Invalid, "no");
    if (faults_->slow.exchange(false)) std::this_thread::sleep_for(kTextLimit * 5 / 4);
    auto parsed = inner_.parse(chat);
    if (faults_->forgets) inner_ = text::ByteText();
    return parsed;
  }

 private:
  std::shared_ptr<Faults> faults_;
  text::ByteText inner_;
};

class Collector final : public GenerationSink {
 public:
  void on_event(GenerationEvent event) override {
    const std::lock_guard lock(mutex_);
    if (auto* delta = std::get_if<TextDelta>(&event)) {
      ++deltas;
      logprobs += delta->logprobs.size();
      text += delta->text;
      for (const CallDelta& call : delta->calls) {
        if (calls.size() <= call.index) calls.resize(call.index + 1);
        if (!call.name.empty()) calls[call.index] = {call.index, call.id, call.name, ""};
        calls[call.index].arguments += call.arguments;
      }
      if (delta->finish != Finish::None) finish = delta->finish;
    }
    if (auto* end = std::get_if<Ended>(&event)) ended = std::move(*end);
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return ended.has_value(); });
  }

  int deltas = 0;
  std::size_t logprobs = 0;
  std::string text;
  std::vector<CallDelta> calls;
  Finish finish = Finish::None;
  std::optional<Ended> ended;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class LoopParse : public testing::Test {
 protected:
  void start(Duration text_limit = std::chrono::seconds(10)) {
    engine::SimOptions sim;
    sim.end_one_in = 300;
    worker::ThreadOptions threads;
    threads.make_device_engine = [sim] { return std::make_unique<engine::SimEngine>(sim); };
    threads.make_text_engine = [faults = faults] { return std::make_unique<FaultyText>(faults); };
    threads.probe = [sim](const std::string&) { return engine::sim_model_info(sim); };
    LoopOptions options;
    options.models = {{.name = "sim", .path = "sim"}};
    options.classes = {"chat"};
    options.text_limit = text_limit;
    auto started = start_loop(
        options, worker::thread_workers(std::move(threads)), [](store::UsageRow) {}, metrics);
    ASSERT_TRUE(started) << started.error().message;
    service = std::move(*started);
  }

  std::shared_ptr<Collector> ask(bool tools, std::uint32_t n = 1, std::uint32_t tokens = 600) {
    Generation g;
    ChatPrompt chat;
    chat.messages = R"([{"role":"user","content":"hello"}])";
    if (tools) chat.tools = kTools;
    g.prompt = std::move(chat);
    g.max_tokens = tokens;
    g.seed = 4;
    g.n = n;
    g.sampling.want_logprob = true;
    auto sink = std::make_shared<Collector>();
    service->submit(std::move(g), sink);
    EXPECT_TRUE(sink->wait());
    return sink;
  }

  // What the same words come to when they are taken apart in one go.
  static text::ParsedChat expected(const std::string& raw) {
    text::ByteText text;
    return *text.parse({.key = 1, .parser = text::ChatParser{}, .text = raw});
  }

  void expect_the_same(const Collector& got, const Collector& plain) {
    const text::ParsedChat want = expected(plain.text);
    EXPECT_EQ(got.text, want.content);
    ASSERT_EQ(got.calls.size(), want.calls.size());
    for (std::size_t i = 0; i < want.calls.size(); ++i) {
      EXPECT_EQ(got.calls[i].name, want.calls[i].name);
      EXPECT_EQ(got.calls[i].arguments, want.calls[i].arguments);
      EXPECT_EQ(got.calls[i].id.size(), 9U);
    }
    EXPECT_EQ(got.logprobs, plain.logprobs);
  }

  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  Metrics metrics;
  std::unique_ptr<Service> service;
};

TEST_F(LoopParse, DeltasAddUpToTheAnswerTakenApart) {
  start();
  const auto plain = ask(false);
  EXPECT_EQ(faults->questions, 0);  // A plain chat asks nobody.
  const auto got = ask(true);
  expect_the_same(*got, *plain);
  ASSERT_FALSE(got->calls.empty());  // The seed was chosen so.
  EXPECT_EQ(got->finish, plain->finish == Finish::Stop ? Finish::ToolCalls : plain->finish);
  EXPECT_GT(faults->questions, 1);  // While it grew, and at its end.
  EXPECT_EQ(faults->parsers, 1);
}

TEST_F(LoopParse, ChoicesShareTheParser) {
  start();
  const auto got = ask(true, 4);
  ASSERT_TRUE(got->ended);
  EXPECT_FALSE(got->ended->error);
  EXPECT_EQ(faults->parsers, 1);
}

TEST_F(LoopParse, AForgottenParserIsSentAgain) {
  start();
  const auto plain = ask(false);
  faults->forgets = true;
  expect_the_same(*ask(true), *plain);
  EXPECT_GT(faults->parsers, 1);
}

TEST_F(LoopParse, AWholeThatHasNotItsFormGivesWhatItsBeginningGave) {
  start();
  const auto plain = ask(false);
  faults->strict = true;
  expect_the_same(*ask(true), *plain);
}

TEST_F(LoopParse, WhatCannotBeTakenApartComesAsItIs) {
  start();
  const auto plain = ask(false);
  faults->fails = true;
  const auto got = ask(true);
  EXPECT_EQ(got->text, plain->text);
  EXPECT_TRUE(got->calls.empty());
  EXPECT_EQ(got->finish, plain->finish);
  EXPECT_FALSE(got->ended->error);
}

TEST_F(LoopParse, AWorkerThatTakesTooLongIsReplaced) {
  start(kTextLimit);
  const auto plain = ask(false);
  faults->slow = true;
  const auto got = ask(true);
  EXPECT_EQ(got->text, plain->text);
  EXPECT_FALSE(got->ended->error);
  expect_the_same(*ask(true), *plain);  // The next one finds a worker that works.
  EXPECT_EQ(faults->starts, 2);
}

}  // namespace
}  // namespace lares::server
