// The executor on a host that does the work when it is told to.
#include "server/sketch_run.h"

#include <algorithm>
#include <deque>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/sketch_request.h"
#include "server/sketch_support.h"
#include "sketch/parser.h"
#include "sketch/planner.h"
#include "sketch/test_catalogue.h"

namespace lares::server {
namespace {

class Host final : public SketchHost {
 public:
  engine::Handle new_handle() override {
    live.insert(engine::Handle{++handles_});
    return engine::Handle{handles_};
  }
  std::uint64_t new_seed() override { return ++seeds_; }
  void begin(SketchWork work) override {
    if (work.passes > 0) queue.push_back(work);
    all.push_back(std::move(work));
  }
  void finished(std::uint32_t unit) override {
    std::erase_if(queue, [unit](const SketchWork& work) { return work.unit == unit; });
  }
  void fetch(const std::string& /*model*/, engine::Handle handle) override {
    fetches.push_back(handle);
  }
  void fetch_latent(const std::string& /*model*/, engine::Handle handle) override {
    latent_fetches.push_back(handle);
  }
  void forget(const std::string& /*model*/, engine::Handle handle) override {
    EXPECT_EQ(live.erase(handle), 1U) << handle.value;
  }
  std::optional<engine::Handle> cached(const std::string& /*model*/,
                                       const std::string& key) override {
    const auto found = cache.find(key);
    if (found == cache.end()) return std::nullopt;
    ++users[key];
    return found->second;
  }
  bool keep(const std::string& /*model*/, const std::string& key, engine::Handle handle,
            std::uint32_t /*passes*/) override {
    if (!keeps || !cache.emplace(key, handle).second) return false;
    live.erase(handle);
    ++users[key];
    return true;
  }
  void let_go(const std::string& /*model*/, const std::string& key) override { --users[key]; }
  void ask(SketchAsk ask) override { asks.push_back(std::move(ask)); }
  void embed(SketchEmbed embed) override { embeds.push_back(std::move(embed)); }
  void put(SketchOutput output) override { outputs.push_back(std::move(output)); }
  void put(SketchKeep keep) override { kept.push_back(std::move(keep)); }

  // Does one pass of everything that waits, or hands out what was fetched.
  bool work(SketchRun& run) {
    if (!latent_fetches.empty()) {
      const engine::Handle handle = latent_fetches.front();
      latent_fetches.pop_front();
      run.on_latent(handle, {.size = {8, 8}, .values = {1, 2, 3, 4}});
      return true;
    }
    if (!fetches.empty()) {
      const engine::Handle handle = fetches.front();
      fetches.pop_front();
      run.on_fetched(handle, {.size = {1, 1}, .rgb = {1, 2, 3}});
      return true;
    }
    const std::deque<SketchWork> now = queue;
    for (const SketchWork& work : now) {
      std::uint32_t before = 0;
      if (const auto* sample = std::get_if<engine::SampleLatent>(&work.work);
          sample != nullptr && sample->go_on) {
        before = sample->go_on->step;
      }
      run.on_pass(work.unit, before + ++passes[work.handle]);
    }
    return !now.empty();
  }
  void work_all(SketchRun& run) {
    while (work(run)) continue;
  }

  std::deque<SketchWork> queue;
  std::vector<SketchWork> all;
  std::deque<engine::Handle> fetches, latent_fetches;
  std::set<engine::Handle> live;
  std::map<engine::Handle, std::uint32_t> passes;
  std::map<std::string, engine::Handle> cache;
  std::map<std::string, int> users;
  std::vector<SketchOutput> outputs;
  std::vector<SketchKeep> kept;
  std::vector<SketchAsk> asks;
  std::vector<SketchEmbed> embeds;
  bool keeps = true;

 private:
  std::uint64_t handles_ = 0, seeds_ = 0;
};

std::shared_ptr<const sketch::Plan> plan_of(const std::string& text) {
  const auto parsed = sketch::parse(text);
  EXPECT_TRUE(parsed.problems.empty()) << sketch::to_text(parsed.problems.front());
  auto planned = sketch::make_plan(parsed.sketch, sketch::test_catalogue());
  EXPECT_TRUE(planned.problems.empty()) << sketch::to_text(planned.problems.front());
  EXPECT_EQ(cannot_run(planned.plan), std::nullopt);
  return std::make_shared<const sketch::Plan>(std::move(planned.plan));
}

void expect_all_let_go(const Host& host) {
  EXPECT_TRUE(host.live.empty()) << host.live.size() << " handles are left";
  for (const auto& [key, users] : host.users) EXPECT_EQ(users, 0) << key;
}

constexpr const char* kApple = "use sd15\n\"an apple\" | encode | sample 5 seed 1 | out png\n";

TEST(SketchRun, APictureIsWordsStepsAndADecode) {
  Host host;
  SketchRun run(plan_of(kApple), {}, "1", host);
  run.start();
  EXPECT_EQ(host.queue.size(), 2U);  // The words, and none for guidance to turn away from.
  host.work_all(run);
  EXPECT_TRUE(run.done());
  ASSERT_EQ(host.outputs.size(), 1U);
  EXPECT_EQ(host.outputs[0].medium, "png");
  EXPECT_EQ(run.counts().unet_steps, 5U);
  EXPECT_EQ(run.counts().text_encodes, 2U);
  EXPECT_EQ(run.counts().decodes, 1U);
  EXPECT_EQ(run.passes_done(), run.passes());
  expect_all_let_go(host);
}

TEST(SketchRun, TheSameAgainDecodesAlone) {
  Host host;
  const auto plan = plan_of(kApple);
  SketchRun first(plan, {}, "1", host);
  first.start();
  host.work_all(first);
  SketchRun again(plan, {}, "1", host);
  again.start();
  EXPECT_EQ(again.passes(), 1U);
  host.work_all(again);
  EXPECT_TRUE(again.done());
  EXPECT_EQ(again.counts().unet_steps, 0U);
  EXPECT_EQ(again.counts().text_encodes, 0U);
  expect_all_let_go(host);
}

TEST(SketchRun, WordsOfAnotherScopeAreOthers) {
  Host host;
  SketchRun first(plan_of(kApple), {}, "1", host);
  first.start();
  host.work_all(first);
  SketchRun second(plan_of("use sd15\n\"an apple\" | encode | sample 5 seed 2 | out png\n"), {},
                   "2", host);
  second.start();
  host.work_all(second);
  EXPECT_EQ(second.counts().text_encodes, 2U);
}

TEST(SketchRun, WhatStopsOnTheWayIsCarriedOn) {
  Host host;
  SketchRun run(plan_of("use sd15\nc = \"a\" | encode\nmid = sample c 10 seed 4 until 6\n"
                        "out (mid | sample c) png\nout (mid | sample (\"b\" | encode)) png\n"),
                {}, "1", host);
  run.start();
  host.work_all(run);
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.counts().unet_steps, 6U + 4U + 4U);
  std::size_t carried = 0;
  for (const SketchWork& work : host.all) {
    const auto* sample = std::get_if<engine::SampleLatent>(&work.work);
    if (sample == nullptr || !sample->go_on) continue;
    ++carried;
    EXPECT_EQ(sample->go_on->step, 6U);
    EXPECT_EQ(sample->seed, 4U);
    EXPECT_EQ(work.passes, 4U);
  }
  EXPECT_EQ(carried, 2U);
  expect_all_let_go(host);
}

TEST(SketchRun, FromALatentRunsItsPartOfTheSteps) {
  Host host;
  SketchRun run(plan_of("use sd15\nc = \"a\" | encode\na = sample c 4 seed 1\n"
                        "a | resize 2x | sample c 20 from 0.55 seed 2 | out png\n"),
                {}, "1", host);
  run.start();
  host.work_all(run);
  const auto last = std::ranges::find_if(host.all, [](const SketchWork& work) {
    const auto* sample = std::get_if<engine::SampleLatent>(&work.work);
    return sample != nullptr && sample->from.has_value();
  });
  ASSERT_NE(last, host.all.end());
  const auto& sample = std::get<engine::SampleLatent>(last->work);
  EXPECT_EQ(last->passes, 11U);
  EXPECT_EQ(static_cast<std::uint32_t>(sample.steps * sample.strength + 1e-9), 11U);
  EXPECT_EQ(sample.size, (engine::PictureSize{1024, 1024}));
  expect_all_let_go(host);
}

TEST(SketchRun, ListsGoElementByElement) {
  Host host;
  SketchRun run(plan_of("use sd15\nin words : [Text] = [\"a\" \"b\"]\n"
                        "out (sample (words | encode) 2 seed [1 2]) png\n"),
                {{.name = "words", .texts = {"a", "b"}, .list = true}}, "1", host);
  run.start();
  host.work_all(run);
  EXPECT_EQ(host.outputs.size(), 4U);
  EXPECT_EQ(run.counts().unet_steps, 8U);
  EXPECT_EQ(run.counts().text_encodes, 3U);  // Two, and nothing.
  std::set<std::string> keys;
  for (const SketchWork& work : host.all) {
    if (std::holds_alternative<engine::SampleLatent>(work.work)) keys.insert(work.batch_key);
  }
  EXPECT_EQ(keys.size(), 1U);  // They share their passes.
}

TEST(SketchRun, ALostDeviceBeginsItAgainAndPutsNothingOutTwice) {
  Host host;
  SketchRun run(plan_of("use sd15\nc = \"a\" | encode\nout (sample c 2 seed 1) png\n"
                        "out (sample c 9 seed 2) png\n"),
                {}, "1", host);
  run.start();
  while (host.outputs.empty()) ASSERT_TRUE(host.work(run));
  host.queue.clear();
  host.fetches.clear();
  host.live.clear();
  host.cache.clear();
  host.passes.clear();
  run.restart();
  host.work_all(run);
  EXPECT_TRUE(run.done());
  ASSERT_EQ(host.outputs.size(), 2U);
  EXPECT_NE(host.outputs[0].index, host.outputs[1].index);
  EXPECT_TRUE(host.live.empty());
}

TEST(SketchRun, WhatIsCancelledIsLetGo) {
  Host host;
  SketchRun run(plan_of(kApple), {}, "1", host);
  run.start();
  for (int i = 0; i < 3; ++i) host.work(run);
  run.end();
  expect_all_let_go(host);
}

TEST(SketchRun, NothingIsKeptWhereThereIsNoRoom) {
  Host host;
  host.keeps = false;
  SketchRun run(plan_of(kApple), {}, "1", host);
  run.start();
  host.work_all(run);
  EXPECT_TRUE(run.done());
  expect_all_let_go(host);
}

TEST(SketchRun, TextsAreJoinedAndPutOut) {
  Host host;
  SketchRun run(plan_of("in what : Text\nt = \"a {what}, {{really}\"\nout t txt\n"),
                {{.name = "what", .texts = {"fish"}}}, "1", host);
  run.start();
  EXPECT_TRUE(run.done());
  ASSERT_EQ(host.outputs.size(), 1U);
  EXPECT_EQ(host.outputs[0].text, "a fish, {really}");
}

TEST(SketchRun, LatentsAreKeptWithWhatTheyMean) {
  Host host;
  SketchRun run(plan_of("use sd15\nmid = sample (encode \"a\") 20 seed 9 until 8\nkeep mid 2d\n"),
                {}, "1", host);
  run.start();
  host.work_all(run);
  EXPECT_TRUE(run.done());
  EXPECT_TRUE(host.outputs.empty());
  ASSERT_EQ(host.kept.size(), 1U);
  const SketchKeep& kept = host.kept[0];
  EXPECT_EQ(kept.name, "mid");
  EXPECT_EQ(kept.seed, 9U);
  EXPECT_EQ(kept.time, std::chrono::hours(48));
  EXPECT_EQ(kept.latent.values.size(), 4U);
  ASSERT_TRUE(kept.type.noise.has_value());
  EXPECT_EQ(kept.type.noise->done, 8U);
  EXPECT_EQ(run.counts().bytes_copied, 16U);
  expect_all_let_go(host);
}

KeptLatents latents_of(const std::string& id, std::uint64_t seed = 0) {
  KeptLatent kept;
  kept.latent = {.size = {512, 512}, .values = {5, 6}};
  kept.seed = seed;
  return {{id, std::make_shared<const KeptLatent>(kept)}};
}

TEST(SketchRun, AKeptLatentIsAdoptedWhereItIsUsed) {
  Host host;
  SketchRun run(plan_of("use sd15\nlat:3f9c | resize 2x | out png\n"), {}, "1", host,
                latents_of("3f9c"));
  run.start();
  ASSERT_EQ(host.all.size(), 3U);  // Adopted, resized; the decode waits for its passes.
  EXPECT_EQ(host.all[0].model, "sd15");
  EXPECT_EQ(std::get<engine::AdoptLatent>(host.all[0].work).latent.values,
            (std::vector<float>{5, 6}));
  EXPECT_EQ(host.all[1].model, "sd15");
  host.work_all(run);
  EXPECT_TRUE(run.done());
  EXPECT_EQ(run.counts().unet_steps, 0U);
  expect_all_let_go(host);
}

TEST(SketchRun, AKeptScheduleGoesOnFromItsValuesWithItsNoise) {
  Host host;
  SketchRun run(plan_of("use sd15\nout (lat:ha1f | sample (encode \"a\")) png\n"), {}, "1", host,
                latents_of("ha1f", 77));
  run.start();
  host.work_all(run);
  EXPECT_TRUE(run.done());
  const auto sample = std::ranges::find_if(host.all, [](const SketchWork& work) {
    return std::holds_alternative<engine::SampleLatent>(work.work);
  });
  ASSERT_NE(sample, host.all.end());
  const auto& work = std::get<engine::SampleLatent>(sample->work);
  EXPECT_EQ(work.seed, 77U);
  ASSERT_TRUE(work.go_on.has_value());
  EXPECT_EQ(work.go_on->step, 8U);
  EXPECT_EQ(work.go_on->copy, (std::vector<float>{5, 6}));
  EXPECT_EQ(work.go_on->held, std::nullopt);
  EXPECT_EQ(run.counts().unet_steps, 12U);
  expect_all_let_go(host);
}

constexpr const char* kBrief =
    "use sd15\nin idea : Text\nbrief = idea | ask starter-chat \"one scene\" max 40 seed 1\n"
    "out (brief | encode | sample 2 seed 3) png\nout brief txt\n";

TEST(SketchRun, WhatIsWrittenIsEncoded) {
  Host host;
  SketchRun run(plan_of(kBrief), {{.name = "idea", .texts = {"a fox"}}}, "1", host);
  run.start();
  ASSERT_EQ(host.asks.size(), 1U);
  EXPECT_EQ(host.asks[0].model, "starter-chat");
  EXPECT_EQ(host.asks[0].text, "a fox");
  EXPECT_EQ(host.asks[0].system, "one scene");
  EXPECT_EQ(host.asks[0].max, 40U);
  EXPECT_EQ(host.asks[0].seed, 1U);
  host.work_all(run);
  EXPECT_FALSE(run.done());
  run.on_text(host.asks[0].unit, "a fox in snow");
  host.work_all(run);
  EXPECT_TRUE(run.done());
  const auto encoded = std::ranges::find_if(host.all, [](const SketchWork& work) {
    const auto* text = std::get_if<engine::EncodeText>(&work.work);
    return text != nullptr && text->text == "a fox in snow";
  });
  EXPECT_NE(encoded, host.all.end());
  ASSERT_EQ(host.outputs.size(), 2U);
  EXPECT_TRUE(std::ranges::any_of(host.outputs, [](const SketchOutput& output) {
    return output.medium == "txt" && output.text == "a fox in snow";
  }));
  EXPECT_EQ(run.passes_done(), run.passes());
  expect_all_let_go(host);
}

TEST(SketchRun, WhatWasWrittenIsNotAskedAgainWhenADeviceIsLost) {
  Host host;
  SketchRun run(plan_of(kBrief), {{.name = "idea", .texts = {"a fox"}}}, "1", host);
  run.start();
  host.live.clear(), host.queue.clear(), host.cache.clear();
  run.restart();  // While it is being written: it still will be.
  EXPECT_EQ(host.asks.size(), 1U);
  run.on_text(host.asks[0].unit, "a fox in snow");
  host.work(run);
  host.live.clear(), host.queue.clear(), host.cache.clear(), host.fetches.clear();
  run.restart();
  EXPECT_EQ(host.asks.size(), 1U);
  host.work_all(run);
  EXPECT_TRUE(run.done());
}

TEST(SketchRun, TheSameWordsWrittenAgainAreNotEncodedAgain) {
  Host host;
  const auto plan = plan_of(kBrief);
  for (int i = 0; i < 2; ++i) {
    SketchRun run(plan, {{.name = "idea", .texts = {"a fox"}}}, "1", host);
    run.start();
    run.on_text(host.asks.back().unit, "a fox in snow");
    host.work_all(run);
    EXPECT_TRUE(run.done());
    EXPECT_EQ(run.counts().text_encodes, i == 0 ? 2U : 0U);
    EXPECT_EQ(run.passes_done(), run.passes());
    expect_all_let_go(host);
  }
}

TEST(SketchRun, ChunksAreEmbeddedTogether) {
  Host host;
  SketchRun run(plan_of("in notes : [Text]\nout (notes | chunk 3 | embed starter-embed) npy\n"),
                {{.name = "notes", .texts = {"one two three four", "five"}, .list = true}}, "1",
                host);
  run.start();
  ASSERT_EQ(host.embeds.size(), 1U);
  EXPECT_EQ(host.embeds[0].model, "starter-embed");
  EXPECT_EQ(host.embeds[0].texts, (std::vector<std::string>{"one two ", "three four", "five"}));
  for (const std::uint32_t unit : host.embeds[0].units) run.on_vector(unit, {1, 2});
  EXPECT_TRUE(run.done());
  ASSERT_EQ(host.outputs.size(), 3U);
  EXPECT_TRUE(host.outputs[0].text.starts_with("\x93NUMPY"));
}

TEST(SketchRun, WhatHasNoPassesIsNotKept) {
  std::string chain = "use sd15\nx0 = lat:3f9c\n";
  for (int i = 0; i < 60; ++i)
    chain += fmt::format("x{} = blend x{} x{}\n", i + 1, i, i);  // 2^60 ways down.
  for (const std::string& text :
       {std::string("use sd15\na = lat:3f9c\nkeep a 1d\n"), chain + "keep x60 1d\n",
        std::string("use sd15\nc = encode \"a\"\nkeep c 1d\n")}) {
    const auto parsed = sketch::parse(text);
    const auto planned = sketch::make_plan(parsed.sketch, sketch::test_catalogue());
    ASSERT_TRUE(planned.problems.empty()) << sketch::to_text(planned.problems.front());
    EXPECT_TRUE(cannot_run(planned.plan).has_value());
  }
}

TEST(SketchRun, WhatIsNotCarriedOutIsSaid) {
  const auto parsed = sketch::parse("use sd15\n\"a\" | encode | sample 2 | out webp\n");
  const auto planned = sketch::make_plan(parsed.sketch, sketch::test_catalogue());
  EXPECT_NE(cannot_run(planned.plan).value_or("").find("line 2"), std::string::npos);
}

}  // namespace
}  // namespace lares::server
