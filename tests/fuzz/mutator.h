// Inputs for a fuzzer that runs without libFuzzer: files of a corpus, changed a little, the same
// ones each time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lares::fuzz {

// The files of a folder of tests/fuzz/corpus, by name.
inline std::vector<std::string> corpus(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(LARES_SOURCE_DIR "/tests/fuzz/corpus") / folder)) {
    paths.push_back(entry);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

// Bytes, and pieces of the language, inserted, left out, doubled and exchanged.
class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, std::vector<std::string_view> pieces,
          std::uint64_t seed = 20261)
      : seeds_(std::move(seeds)), pieces_(std::move(pieces)), random_(seed) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t i = 1 + below(4); i > 0; --i) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0: text.insert(at, pieces_[below(pieces_.size())]); break;
      case 1: text.erase(at, 1 + below(6)); break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 3: text.insert(at, text.substr(below(text.size()), below(40))); break;
      case 4: text.replace(at, below(8), pieces_[below(pieces_.size())]); break;
      default: {  // The tail of another one.
        const std::string& other = seeds_[below(seeds_.size())];
        text = text.substr(0, at) + other.substr(std::min(at, other.size()));
      }
    }
  }

  std::vector<std::string> seeds_;
  std::vector<std::string_view> pieces_;
  std::mt19937_64 random_;
};

}  // namespace lares::fuzz
