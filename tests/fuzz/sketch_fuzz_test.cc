// The sketch fuzzers driven without libFuzzer: seeded mutations of the corpus, so that every CI run
// fuzzes for a moment with any compiler. A failure prints its round.

#include "sketch_fuzz.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mutator.h"
#include "sketch/json_form.h"
#include "sketch/parser.h"

namespace lares::fuzz {
namespace {

constexpr int kRounds = 30000;

const std::vector<std::string_view> kPieces{
    "(",        ")",        "[",          "]",
    "|",        "\n",       "=",          " : ",
    "\"",       "#",        "{",          "x",
    " c ",      "512x512",  "2x",         "0.55",
    " seed 7 ", " cfg ",    "from",       "until 3",
    "latent",   "sample",   "walk",       "out ",
    " png",     "lat:3f9c", "use sd15\n", "\xc3\xa9",
    "\xcc\x81", "\\",       ",",          "999999999999999999"};

TEST(SketchFuzz, Corpus) {
  EXPECT_GT(corpus("sketch").size(), 9U);
  for (const std::string& text : corpus("sketch")) fuzz_sketch(text);
  EXPECT_GT(corpus("sketch_json").size(), 5U);
  for (const std::string& text : corpus("sketch_json")) fuzz_sketch_json(text);
}

TEST(SketchFuzz, MutationsAreRefusedOrStable) {
  Mutator mutator(corpus("sketch"), kPieces);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    const std::string text = mutator.next();
    fuzz_sketch(text);
    accepted += sketch::parse(text).problems.empty() ? 1 : 0;
  }
  // If nearly all were refused, or accepted, the mutations would test nothing.
  EXPECT_GT(accepted, kRounds / 20);
  EXPECT_LT(accepted, kRounds * 9 / 10);
}

TEST(SketchFuzz, JsonMutationsAreRefusedOrStable) {
  Mutator mutator(corpus("sketch_json"), kPieces);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    const std::string text = mutator.next();
    fuzz_sketch_json(text);
    accepted += sketch::read_json(text).problems.empty() ? 1 : 0;
  }
  EXPECT_GT(accepted, kRounds / 50);
  EXPECT_LT(accepted, kRounds * 9 / 10);
}

}  // namespace
}  // namespace lares::fuzz
