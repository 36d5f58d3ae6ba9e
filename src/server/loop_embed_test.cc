// Embeddings through the loop: real worker loops on threads, the sim engine and the byte tokenizer.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "engine/sim.h"
#include "server/killable_workers.h"
#include "server/loop.h"
#include "text/byte_text.h"
#include "worker/supervisor_threads.h"

namespace lares::server {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

class Collector final : public GenerationSink {
 public:
  void on_event(GenerationEvent event) override {
    const std::lock_guard lock(mutex_);
    if (auto* vector = std::get_if<Embedding>(&event)) {
      vectors[vector->index] = std::move(vector->values);
    }
    if (auto* delta = std::get_if<TextDelta>(&event)) text += delta->text;
    if (auto* end = std::get_if<Ended>(&event)) ended = std::move(*end);
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return ended.has_value(); });
  }
  bool wait_vectors(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return vectors.size() >= count || ended; });
  }

  std::map<std::uint32_t, std::vector<float>> vectors;
  std::string text;
  std::optional<Ended> ended;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class LoopEmbedTest : public ::testing::Test {
 protected:
  void start() {
    engine::SimOptions sim;
    sim.end_one_in = 0;
    worker::ThreadOptions threads;
    threads.make_device_engine = [sim] { return std::make_unique<engine::SimEngine>(sim); };
    threads.make_text_engine = [] { return std::make_unique<text::ByteText>(); };
    threads.probe = [sim](const std::string& path) -> Result<engine::ModelInfo> {
      engine::ModelInfo info = engine::sim_model_info(sim);
      if (path == "encoder") {
        info.can.generates = false;
        info.can.embeds = true;
        info.can.whole_text = true;
        info.context = 100;
      }
      return info;
    };
    workers = std::make_shared<KillableWorkers>(worker::thread_workers(std::move(threads)));
    options.models = {{.name = "sim", .path = "sim"}};
    if (encoder) options.models.push_back({.name = "encoder", .path = "encoder"});
    if (encoder_alone) options.models = {{.name = "encoder", .path = "encoder"}};
    options.classes = {"chat", "embedding"};
    auto started = start_loop(
        options, workers, [this](store::UsageRow row) { rows.push_back(std::move(row)); }, metrics);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    service = std::move(*started);
  }

  std::shared_ptr<Collector> embed(EmbedPrompt prompt, const std::string& model = "") const {
    Generation g;
    g.model = model;
    g.cls = kEmbeddingClass;
    g.prompt = std::move(prompt);
    auto sink = std::make_shared<Collector>();
    service->submit(std::move(g), sink);
    return sink;
  }
  static EmbedPrompt texts(std::size_t count) {
    EmbedPrompt prompt;
    for (std::size_t i = 0; i < count; ++i) {
      prompt.inputs.emplace_back("text number " + std::to_string(i) + std::string(i % 40, '.'));
    }
    return prompt;
  }
  static EmbedPrompt one(std::string text) {
    EmbedPrompt prompt;
    prompt.inputs.emplace_back(std::move(text));
    return prompt;
  }

  bool encoder = false, encoder_alone = false;
  LoopOptions options;
  Metrics metrics;
  std::vector<store::UsageRow> rows;
  std::shared_ptr<KillableWorkers> workers;
  std::unique_ptr<Service> service;
};

TEST_F(LoopEmbedTest, OneVectorATextWhoeverIsBesideIt) {
  start();
  const auto together = embed(texts(20));
  ASSERT_TRUE(together->wait());
  EXPECT_FALSE(together->ended->error) << together->ended->error->message;
  ASSERT_EQ(together->vectors.size(), 20U);
  for (std::uint32_t i = 0; i < 20; i += 7) {
    const auto alone = embed(one(std::get<std::string>(texts(20).inputs[i])));
    ASSERT_TRUE(alone->wait());
    EXPECT_EQ(alone->vectors[0], together->vectors[i]);
    EXPECT_EQ(alone->vectors[0].size(), 128U);
  }
  EXPECT_NE(together->vectors[0], together->vectors[1]);
  const auto tokens = embed(EmbedPrompt{.inputs = {std::vector<std::int32_t>{70, 71, 72}}});
  ASSERT_TRUE(tokens->wait());
  EXPECT_EQ(tokens->ended->usage.prompt_tokens, 3U);
  service.reset();
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[0].outcome, store::Outcome::Done);
  EXPECT_EQ(rows[0].cls, "embedding");
  EXPECT_EQ(rows[0].model, "sim");
  EXPECT_EQ(rows[0].output_tokens, 0U);
  EXPECT_EQ(rows[0].prompt_tokens, together->ended->usage.prompt_tokens);
  EXPECT_GT(rows[0].device.count(), 0);
}

TEST_F(LoopEmbedTest, AThousandTextsBesideAChat) {
  start();
  const auto chat = [this] {
    Generation g;
    g.prompt = TextPrompt{"hello"};
    g.max_tokens = 300;
    g.seed = 1;
    auto sink = std::make_shared<Collector>();
    service->submit(std::move(g), sink);
    return sink;
  };
  const auto alone = chat();
  ASSERT_TRUE(alone->wait());
  const auto beside = chat();
  const auto many = embed(texts(1000));
  ASSERT_TRUE(beside->wait());
  ASSERT_TRUE(many->wait());
  EXPECT_EQ(beside->text, alone->text);
  EXPECT_FALSE(many->ended->error);
  EXPECT_EQ(many->vectors.size(), 1000U);
}

TEST_F(LoopEmbedTest, WorkersDieAndNobodyNotices) {
  start();
  const auto undisturbed = embed(texts(300));
  ASSERT_TRUE(undisturbed->wait());
  const auto device = embed(texts(300));
  ASSERT_TRUE(device->wait_vectors(50));
  workers->kill(worker::Kind::Device);
  ASSERT_TRUE(device->wait());
  EXPECT_FALSE(device->ended->error);
  EXPECT_EQ(device->vectors, undisturbed->vectors);
  const auto text = embed(texts(300));
  workers->kill(worker::Kind::Text);
  ASSERT_TRUE(text->wait());
  EXPECT_FALSE(text->ended->error) << text->ended->error->message;
  EXPECT_EQ(text->vectors, undisturbed->vectors);
}

TEST_F(LoopEmbedTest, WhatDoesNotFitIsRefusedWithNumbersOrCut) {
  start();
  const auto longer = embed(one(std::string(5000, 'x')));
  ASSERT_TRUE(longer->wait());
  EXPECT_EQ(longer->ended->error_code, "context_length_exceeded");
  EXPECT_NE(longer->ended->error->message.find("4096"), std::string::npos);
  EmbedPrompt cut = one(std::string(5000, 'x'));
  cut.truncate = true;
  const auto shorter = embed(cut);
  ASSERT_TRUE(shorter->wait());
  EXPECT_FALSE(shorter->ended->error);
  EXPECT_EQ(shorter->ended->usage.prompt_tokens, 4096U);
  EmbedPrompt wide = one("x");
  wide.dimensions = 129;
  const auto wrong = embed(wide);
  ASSERT_TRUE(wrong->wait());
  EXPECT_EQ(wrong->ended->error_code, "dimensions_invalid");
  EXPECT_NE(wrong->ended->error->message.find("128"), std::string::npos);
  const auto foreign = embed(EmbedPrompt{.inputs = {std::vector<std::int32_t>{70, 100000}}});
  ASSERT_TRUE(foreign->wait());
  EXPECT_EQ(foreign->ended->error_code, "token_unknown");
  const auto nobody = embed(texts(1), "simm");
  ASSERT_TRUE(nobody->wait());
  EXPECT_EQ(nobody->ended->error_code, "model_not_found");
}

TEST_F(LoopEmbedTest, AModelForEmbeddingsIsPreferredAndWritesNoText) {
  encoder = true;
  start();
  for (const char* name : {"", "starter-embed", "encoder"}) {
    const auto vector = embed(one("hello"), name);
    ASSERT_TRUE(vector->wait());
    EXPECT_FALSE(vector->ended->error) << name;
  }
  const auto longer = embed(one(std::string(200, 'x')));
  ASSERT_TRUE(longer->wait());
  EXPECT_NE(longer->ended->error->message.find("encoder takes 100"), std::string::npos)
      << longer->ended->error->message;
  const auto other = embed(one("hello"), "sim");
  ASSERT_TRUE(other->wait());
  EXPECT_FALSE(other->ended->error);
  Generation g;
  g.model = "encoder";
  g.prompt = TextPrompt{"hello"};
  const auto chat = std::make_shared<Collector>();
  service->submit(std::move(g), chat);
  ASSERT_TRUE(chat->wait());
  EXPECT_EQ(chat->ended->error_code, "model_cannot_generate");
  ASSERT_EQ(service->models().size(), 2U);
  EXPECT_EQ(service->models()[1].state, "ready");
}

TEST_F(LoopEmbedTest, AServerForEmbeddingsAloneIsReady) {
  encoder_alone = true;
  start();
  const auto vector = embed(one("hello"));
  ASSERT_TRUE(vector->wait());
  EXPECT_FALSE(vector->ended->error);
  EXPECT_TRUE(service->status().ready) << service->status().reason;
}

// Models that come and go while the server runs.
TEST_F(LoopEmbedTest, AModelComesAndGoes) {
  start();
  const auto text = [this](const std::string& model, std::uint32_t tokens) {
    Generation g;
    g.model = model;
    g.prompt = TextPrompt{"hello"};
    g.max_tokens = tokens;
    auto sink = std::make_shared<Collector>();
    service->submit(std::move(g), sink);
    return sink;
  };
  const ModelEntry sim{.name = "sim", .path = "sim"};
  const ModelEntry other{.name = "other", .path = "other"};
  service->set_models({sim, other});
  const auto first = text("other", 5);
  ASSERT_TRUE(first->wait());
  EXPECT_FALSE(first->ended->error) << first->ended->error->message;
  const auto running = text("other", 400);
  const auto vector = embed(one("hello"), "other");
  ASSERT_TRUE(vector->wait());
  service->set_models({sim});
  const auto late = text("other", 5);
  ASSERT_TRUE(late->wait());
  EXPECT_EQ(late->ended->error_code, "model_not_found");
  ASSERT_TRUE(running->wait());
  EXPECT_FALSE(running->ended->error) << "what runs goes on";
  EXPECT_EQ(service->models().size(), 1U);
  // The same name again is another model; the one before is off the device by then.
  service->set_models({sim, {.name = "other", .path = "other", .stamp = 2}});
  const auto again = text("other", 5);
  ASSERT_TRUE(again->wait());
  EXPECT_FALSE(again->ended->error);
  EXPECT_EQ(again->text.size(), first->text.size());
}

TEST_F(LoopEmbedTest, AMembersLimitSlowsItsTextsDown) {
  start();
  Generation g;
  g.cls = kEmbeddingClass;
  g.member = {MemberId{1}, "ana", 1000, {.in_flight = 2, .queued = 3}};
  g.prompt = texts(200);
  const auto sink = std::make_shared<Collector>();
  service->submit(std::move(g), sink);
  ASSERT_TRUE(sink->wait());
  EXPECT_FALSE(sink->ended->error) << sink->ended->error->message;
  EXPECT_EQ(sink->vectors.size(), 200U);
}

TEST_F(LoopEmbedTest, ACancelledRequestEndsWithWhatItHad) {
  start();
  Generation g;
  g.prompt = texts(2000);
  const auto sink = std::make_shared<Collector>();
  const JobId job = service->submit(std::move(g), sink);
  ASSERT_TRUE(sink->wait_vectors(1));
  EXPECT_TRUE(service->cancel(job));
  ASSERT_TRUE(sink->wait());
  EXPECT_EQ(sink->ended->error_code, "cancelled");
  EXPECT_LT(sink->vectors.size(), 2000U);
  const auto after = embed(texts(3));
  ASSERT_TRUE(after->wait());
  EXPECT_FALSE(after->ended->error);
}

}  // namespace
}  // namespace lares::server
