#include "sketch/planner.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sketch/parser.h"
#include "sketch/test_catalogue.h"

namespace lares::sketch {
namespace {

const std::string kGolden = LARES_SOURCE_DIR "/tests/golden/sketch/";

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool blessing() {
  return std::getenv("LARES_BLESS") != nullptr;
}

Planned planned(std::string_view text, const Catalogue& catalogue = test_catalogue()) {
  Parsed parsed = parse(text);
  if (!parsed.problems.empty()) return {{}, std::move(parsed.problems)};
  return make_plan(parsed.sketch, catalogue);
}

std::string problems_of(const Planned& planned) {
  std::string out;
  for (const Problem& problem : planned.problems) out += to_text(problem) + '\n';
  return out;
}

const Node& node_of(const Plan& plan, std::string_view op) {
  for (const Node& node : plan.nodes) {
    if (node.op == op) return node;
  }
  static const Node kNone;
  ADD_FAILURE() << "no " << op;
  return kNone;
}

std::string note_of(const Node& node, Check check) {
  for (const Note& note : node.notes) {
    if (note.check == check) return note.text;
  }
  return "";
}

// The table of faulty sketches: see its first lines.
TEST(Golden, FaultySketches) {
  const std::string table = read_file(kGolden + "faults.txt");
  std::size_t at = table.find("=== ");
  std::string rewritten = table.substr(0, at);
  std::set<std::string> codes;
  int cases = 0;
  while (at < table.size()) {
    const std::size_t line = table.find('\n', at);
    const std::size_t answer = table.find("---\n", line);
    const std::size_t next = std::min(table.find("\n=== ", answer), table.size() - 1) + 1;
    const std::string name = table.substr(at, line - at);
    Catalogue catalogue = test_catalogue();
    if (const std::size_t memory = name.find("[memory "); memory != std::string::npos) {
      catalogue.device_memory = Bytes{std::atoll(name.c_str() + memory + 8)};
    }
    const std::string text = table.substr(line + 1, answer - line - 1);
    const std::string found = problems_of(planned(text, catalogue));
    EXPECT_EQ(found, blessing() ? found : table.substr(answer + 4, next - answer - 4)) << name;
    EXPECT_NE(found, "") << name << " is not faulty";
    rewritten += name + '\n' + text + "---\n" + found;
    for (std::size_t i = 0; i < found.size(); i = found.find('\n', i) + 1) {
      if (found[i] != ' ') codes.insert(found.substr(i, 2));
    }
    at = next;
    ++cases;
  }
  EXPECT_GE(cases, 40);
  EXPECT_EQ(codes, (std::set<std::string>{"D1", "E1", "L1", "L2", "M1", "N1", "N2", "N3", "P1",
                                          "S1", "T1", "T2", "T3"}));
  if (blessing()) std::ofstream(kGolden + "faults.txt") << rewritten;
}

TEST(Golden, PlansOfTheExamples) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(LARES_SOURCE_DIR "/examples/sketches")) {
    SCOPED_TRACE(entry.path());
    const Planned made = planned(read_file(entry.path()));
    ASSERT_EQ(problems_of(made), "");
    const std::string path = kGolden + "plans/" + entry.path().stem().string() + ".txt";
    if (blessing()) std::ofstream(path) << to_text(made.plan);
    EXPECT_EQ(to_text(made.plan), read_file(path));
    ++files;
  }
  EXPECT_GE(files, 9);
}

TEST(Golden, ThePlanInTheDocumentation) {
  const std::string plan = read_file(kGolden + "plans/draft_then_large.txt");
  std::string indented;
  for (std::size_t i = 0; i < plan.size();) {
    const std::size_t end = plan.find('\n', i);
    indented += (end == i ? "" : "    ") + plan.substr(i, end - i + 1);
    i = end + 1;
  }
  EXPECT_NE(read_file(LARES_SOURCE_DIR "/docs/sketches.md").find(indented), std::string::npos);
}

TEST(Types, FollowTheEdges) {
  const Planned made = planned(
      "use sd15 at 512x768 f32\n"
      "c : Cond clip-l 77x768 f32 = \"a fox\" | encode\n"
      "a : Latent sd 64x96 f32 clean = sample c 20 seed 1\n"
      "b : Latent sd 64x96 f32 at 8/20 = sample c 20 seed 1 until 8\n"
      "d : [Latent sd 64x96] = sample c 20 seed [1 2 3]\n"
      "e : Latent 128x192 = a | resize 2x\n"
      "f : Pixels 1024x1536 = e | pixels\n"
      "g : [Latent] = walk a (b | sample c) 5\n"
      "h : Latent sd 64x96 = blend a a 0.3\n"
      "i : [Embedding starter-embed 384] = \"long\" | chunk 512 overlap 16 | embed\n"
      "j : Text = \"why\" | ask \"briefly\" json \"{{}\"\n");
  EXPECT_EQ(problems_of(made), "");
}

TEST(Types, SeedsMultiplyAndFlatten) {
  const Planned made = planned(
      "use sd15\n"
      "c = encode [\"a\" \"b\"]\n"
      "x = sample c 20 seed [1 2 3]\n"
      "x | out png");
  ASSERT_EQ(problems_of(made), "");
  EXPECT_EQ(node_of(made.plan, "sample").type.count, 6U);
  EXPECT_EQ(node_of(made.plan, "decode").price, std::chrono::seconds(3));
}

TEST(Noise, StepsThatAreRun) {
  const auto steps = [](std::string_view text) {
    const Planned made = planned(text);
    EXPECT_EQ(problems_of(made), "");
    return made.plan.nodes.empty() ? 0 : made.plan.nodes.back().steps;
  };
  EXPECT_EQ(steps("use sd15\nx = lat:3f9c | sample (encode \"a\") 20 from 0.55"), 11U);
  EXPECT_EQ(steps("use sd15\nx = lat:3f9c | sample (encode \"a\") 14 from 0.5"), 7U);
  EXPECT_EQ(steps("use sd15\nx = lat:3f9c | sample (encode \"a\") 20 from 1"), 20U);
  EXPECT_EQ(steps("use sd15\nx = sample (encode \"a\") 20 until 8"), 8U);
  EXPECT_EQ(steps("use sd15\nx = lat:ha1f | sample (encode \"a\")"), 12U);
  EXPECT_EQ(steps("use sd15\nx = lat:ha1f | sample (encode \"a\") until 10"), 2U);
  EXPECT_EQ(steps("use sd15\nx = lat:3f9c | sample (encode \"a\") 20 from 0.5 until 12"), 2U);
}

TEST(Precision, CastsAppear) {
  const Planned made = planned("use sd15 f16\nx = lat:3f9c | sample (encode \"a\") 20 from 0.5");
  EXPECT_EQ(note_of(node_of(made.plan, "sample"), Check::P1), "lat:3f9c: f32 -> f16");
  const Planned same = planned("use sd15 f32\nx = lat:3f9c | sample (encode \"a\") 20 from 0.5");
  EXPECT_EQ(note_of(node_of(same.plan, "sample"), Check::P1), "");
}

TEST(Boundary, APairVanishesUnlessThePixelsAreWritten) {
  const Planned vanished = planned("lat:3f9c | latent sd15 | out png");
  ASSERT_EQ(problems_of(vanished), "");
  EXPECT_EQ(vanished.plan.nodes.size(), 3U);
  EXPECT_EQ(note_of(vanished.plan.nodes[0], Check::B1), "`latent` on line 1 has nothing to do");
  const Planned written = planned("lat:3f9c | pixels | latent sdxl | out png");
  ASSERT_EQ(problems_of(written), "");
  EXPECT_EQ(written.plan.nodes.size(), 5U);
  EXPECT_EQ(node_of(written.plan, "latent").type.text(), "Latent sdxl 64x64 f16");
}

TEST(Share, EqualPurePartsAreOne) {
  const Planned made = planned(
      "use sd15\n"
      "x = sample (encode \"a\") 20 seed 1\n"
      "y = sample (encode \"a\") 20 seed 1\n"
      "out x png\nout y webp");
  ASSERT_EQ(problems_of(made), "");
  EXPECT_EQ(made.plan.nodes.size(), 6U) << to_text(made.plan);
  EXPECT_EQ(note_of(node_of(made.plan, "sample"), Check::C1), "also line 3");
  const Planned unseeded = planned(
      "use sd15\n"
      "x = sample (encode \"a\") 20\n"
      "y = sample (encode \"a\") 20\n");
  EXPECT_EQ(unseeded.plan.nodes.size(), 4U) << "each draws its own noise";
  const Planned other = planned(
      "use sd15\n"
      "x = sample (encode \"a\") 20 seed 1\n"
      "y = sample (encode \"a\") 20 seed 2\n");
  EXPECT_EQ(other.plan.nodes.size(), 4U);
}

TEST(Keys, TellWhetherAValueIsKnown) {
  const std::string text =
      "use sd15\nc = encode \"a\"\nx = sample c 20 seed 1 until 8\ny = x | sample c\nout y png";
  Catalogue catalogue = test_catalogue();
  const Planned cold = planned(text, catalogue);
  ASSERT_EQ(problems_of(cold), "");
  const Node& last = cold.plan.nodes[3];
  ASSERT_EQ(last.name, "y");
  EXPECT_EQ(last.value_key.size(), 32U);
  // The final latent is there: no step runs, no text is encoded, one decode is left.
  catalogue.cached.insert(last.value_key);
  const Planned warm = planned(text, catalogue);
  EXPECT_TRUE(warm.plan.nodes[3].cached);
  EXPECT_FALSE(warm.plan.nodes[2].needed);
  EXPECT_FALSE(warm.plan.nodes[1].needed);
  EXPECT_EQ(warm.plan.price, std::chrono::milliseconds(500));
  // Another member has another scope.
  catalogue.scope = "bob";
  EXPECT_FALSE(planned(text, catalogue).plan.nodes[3].cached);
  catalogue.scope = "ada";
  catalogue.cached.clear();
  catalogue.queued.insert(last.value_key);
  EXPECT_EQ(note_of(planned(text, catalogue).plan.nodes[3], Check::C1),
            "another job of yours computes it");
}

TEST(Keys, DependOnWhatMattersAlone) {
  const auto key = [](std::string_view stage) {
    const Planned made = planned(fmt::format("use sd15\nx = encode \"a\" | {}\n", stage));
    EXPECT_EQ(problems_of(made), "");
    return node_of(made.plan, "sample").value_key;
  };
  const std::string plain = key("sample 20 seed 1");
  EXPECT_EQ(plain, key("sample seed 1 20 ddim preview proj every 300ms cfg 7.5"));
  for (const char* other : {"sample 21 seed 1", "sample 20 seed 2", "sample 20 seed 1 cfg 7",
                            "sample 20 seed 1 cfg off", "sample 20 seed 1 euler",
                            "sample 20 seed 1 until 19", "sample 20 seed [1]"}) {
    EXPECT_NE(plain, key(other)) << other;
  }
  const Planned unseeded = planned("use sd15\nx = encode \"a\" | sample 20");
  EXPECT_EQ(node_of(unseeded.plan, "sample").no_key, "no seed");
}

TEST(Keys, InputsMakeThemWhenTheyAreGiven) {
  const std::string text = "use sd15\nin idea : Text\nx = encode \"a {idea}\"";
  EXPECT_EQ(node_of(planned(text).plan, "encode").no_key, "`idea` is given at run time");
  Catalogue catalogue = test_catalogue();
  catalogue.inputs = {{.name = "idea", .digest = "d1"}};
  const std::string one = node_of(planned(text, catalogue).plan, "encode").value_key;
  catalogue.inputs[0].digest = "d2";
  const std::string two = node_of(planned(text, catalogue).plan, "encode").value_key;
  EXPECT_EQ(one.size(), 32U);
  EXPECT_NE(one, two);
  EXPECT_EQ(planned(text).plan.key, planned(text, catalogue).plan.key) << "the plan is the same";
}

TEST(Keys, ACheckpointSavesItsSteps) {
  const std::string text = "use sd15\nx = encode \"a\" | sample 20 cfg off seed 1\nkeep x 1h";
  Catalogue catalogue = test_catalogue();
  const Node cold = node_of(planned(text, catalogue).plan, "sample");
  EXPECT_EQ(cold.price, std::chrono::milliseconds(4000));
  catalogue.checkpoints[cold.trajectory_key] = 15;
  const Node warm = node_of(planned(text, catalogue).plan, "sample");
  EXPECT_EQ(warm.resumes_at, 15U);
  EXPECT_EQ(warm.price, std::chrono::milliseconds(1000));
  const Node shorter = node_of(
      planned("use sd15\nx = encode \"a\" | sample 20 cfg off seed 1 until 18", catalogue).plan,
      "sample");
  EXPECT_EQ(shorter.price, std::chrono::milliseconds(600)) << "the same trajectory";
}

TEST(Memory, TilesWhereADecodeDoesNotFit) {
  Catalogue catalogue = test_catalogue();
  catalogue.device_memory = Bytes{3500000000};
  const Planned made = planned("lat:3f9c | resize 2x | out png", catalogue);
  ASSERT_EQ(problems_of(made), "");
  EXPECT_EQ(node_of(made.plan, "decode").tile, 512U);
  EXPECT_EQ(note_of(node_of(made.plan, "decode"), Check::M1),
            "in tiles of 512x512: 1000.0 MiB instead of 3.9 GiB");
  catalogue.leased = Bytes{1000000000};
  EXPECT_EQ(node_of(planned("lat:3f9c | resize 2x | out png", catalogue).plan, "decode").tile,
            256U);
}

TEST(Batch, ExactRunsInNone) {
  const std::string text = "use sd15\nx = encode \"a\" | sample 20 seed 1\n";
  EXPECT_EQ(node_of(planned(text).plan, "sample").batch_key,
            "sample sd15 f16 64x64 steps 20 ddim cfg");
  EXPECT_EQ(node_of(planned(text + "want exact").plan, "sample").batch_key, "");
  EXPECT_TRUE(planned(text + "want exact").plan.exact);
}

TEST(Choice, WarmFirstThenWhatIsWanted) {
  Catalogue catalogue = test_catalogue();
  std::erase_if(catalogue.models, [](const Model& m) {
    return m.name != "sd15" && m.name != "dreamshaper" && m.name != "sd-turbo";
  });
  const auto chosen = [&](const std::string& more) {
    const Planned made =
        planned("use auto\nx = encode \"a\" | sample seed 1\nout x png\n" + more, catalogue);
    EXPECT_EQ(problems_of(made), "");
    return made.plan.choices.empty() ? std::string() : made.plan.choices[0].model;
  };
  EXPECT_EQ(chosen(""), "sd-turbo") << "one step is cheaper than twenty";
  catalogue.models[1].warm = true;
  EXPECT_EQ(chosen(""), "dreamshaper");
  catalogue.models[0].quality = 5;
  catalogue.models[1].quality = 2;
  EXPECT_EQ(chosen("want fine"), "sd15");
  EXPECT_EQ(chosen("want under 1s"), "sd-turbo") << "the others take 8 s";
  EXPECT_EQ(chosen("want under 10s"), "sd15") << "the best that is fast enough";
  catalogue.models[1].steps_draft = 4;
  EXPECT_EQ(chosen("want draft"), "dreamshaper");
}

TEST(Price, WhatWasNotMeasuredIsNamed) {
  Catalogue catalogue = test_catalogue();
  catalogue.costs.clear();
  const Planned made =
      planned("use sd15\nx = encode \"a\" | sample 20 seed 1\nout x png", catalogue);
  EXPECT_EQ(made.plan.unmeasured,
            (std::vector<std::string>{"encode sd15", "sample sd15", "decode sd15"}));
  EXPECT_EQ(made.plan.price, Duration(0));
}

// Ten thousand nodes are refused, and the most that is allowed is planned quickly.
TEST(Planner, LargeSketches) {
  std::string text = "use sd15\nx0 = lat:3f9c\n";
  for (int i = 1; i < 800; ++i) {
    text += fmt::format("x{} = blend x{} x{} 0.{:03}\n", i, i - 1, i - 1, i);
  }
  const Planned made = planned(text);
  EXPECT_EQ(problems_of(made), "");
  EXPECT_EQ(made.plan.nodes.size(), 800U);
}

}  // namespace
}  // namespace lares::sketch
