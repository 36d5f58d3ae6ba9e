// The sketch fuzzers driven without libFuzzer: seeded mutations of the corpus, so that every CI run
// fuzzes for a moment with any compiler. A failure prints its round.

#include "sketch_fuzz.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sketch/json_form.h"
#include "sketch/parser.h"

namespace lares::fuzz {
namespace {

constexpr std::uint64_t kSeed = 20261;
constexpr int kRounds = 30000;

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry);
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

// Bytes and pieces of the language, inserted, left out, doubled and exchanged.
class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  template <class Items>
  std::string pick(const Items& items) {
    return std::string(items[below(items.size())]);
  }

  void change(std::string& text) {
    static constexpr std::array<std::string_view, 32> kPieces{
        "(",        ")",        "[",          "]",
        "|",        "\n",       "=",          " : ",
        "\"",       "#",        "{",          "x",
        " c ",      "512x512",  "2x",         "0.55",
        " seed 7 ", " cfg ",    "from",       "until 3",
        "latent",   "sample",   "walk",       "out ",
        " png",     "lat:3f9c", "use sd15\n", "\xc3\xa9",
        "\xcc\x81", "\\",       ",",          "999999999999999999"};
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0: text.insert(at, pick(kPieces)); break;
      case 1: text.erase(at, 1 + below(6)); break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 3: text.insert(at, text.substr(below(text.size()), below(40))); break;
      case 4: text.replace(at, below(8), pick(kPieces)); break;
      default: {  // The tail of another one.
        const std::string other = pick(seeds_);
        text = text.substr(0, at) + other.substr(std::min(at, other.size()));
      }
    }
  }

 public:
  std::string next() {
    std::string text = pick(seeds_);
    for (std::size_t i = 1 + below(4); i > 0; --i) change(text);
    return text;
  }

 private:
  std::vector<std::string> seeds_;
  std::mt19937_64 random_{kSeed};
};

const std::string kCorpus = LARES_SOURCE_DIR "/tests/fuzz/corpus/";

TEST(SketchFuzz, Corpus) {
  EXPECT_GT(files_of(kCorpus + "sketch").size(), 9U);
  for (const std::string& text : files_of(kCorpus + "sketch")) fuzz_sketch(text);
  EXPECT_GT(files_of(kCorpus + "sketch_json").size(), 5U);
  for (const std::string& text : files_of(kCorpus + "sketch_json")) fuzz_sketch_json(text);
}

TEST(SketchFuzz, MutationsAreRefusedOrStable) {
  Mutator mutator(files_of(kCorpus + "sketch"));
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
  Mutator mutator(files_of(kCorpus + "sketch_json"));
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
