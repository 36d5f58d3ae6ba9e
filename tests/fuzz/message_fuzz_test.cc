// The message fuzzer driven without libFuzzer: seeded mutations of valid frames, so that every CI
// run fuzzes for a moment with any compiler. A failure prints the seed's round.

#include "message_fuzz.h"

#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "worker/message_samples.h"

namespace lares::fuzz {
namespace {

constexpr std::uint64_t kSeed = 20260;
constexpr int kRounds = 400000;

std::vector<std::string> seed_frames() {
  std::vector<std::string> frames;
  for (const worker::Message& message : worker::sample_messages()) {
    std::string bytes;
    worker::encode(message, bytes);
    frames.push_back(bytes.substr(sizeof(std::uint32_t)));
  }
  return frames;
}

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string next() {
    std::string frame = seeds_[below(seeds_.size())];
    const std::size_t changes = 1 + below(4);
    for (std::size_t i = 0; i < changes; ++i) change(frame);
    return frame;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void change(std::string& frame) {
    const std::size_t at = below(frame.size());
    switch (below(7)) {
      case 0:
        if (!frame.empty()) frame[at] = static_cast<char>(random_());
        break;
      case 1:
        if (!frame.empty()) frame[at] = static_cast<char>(frame[at] ^ (1 << below(8)));
        break;
      case 2: frame.resize(at); break;
      case 3: frame.insert(at, 1 + below(8), static_cast<char>(random_())); break;
      case 4: frame.erase(at, 1 + below(8)); break;
      case 5: {  // The tail of another frame.
        const std::string& other = seeds_[below(seeds_.size())];
        frame = frame.substr(0, at) + other.substr(std::min(at, other.size()));
        break;
      }
      default: {  // A count or length at an edge.
        static constexpr std::uint32_t kEdges[] = {0,          1,          0x7fffffff,
                                                   0x80000000, 0xffffffff, 0x10000};
        const std::uint32_t edge = kEdges[below(6)];
        if (frame.size() >= at + sizeof edge) {
          frame.replace(at, sizeof edge, reinterpret_cast<const char*>(&edge), sizeof edge);
        }
      }
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{kSeed};
};

TEST(MessageFuzz, SeedsAreAccepted) {
  for (const std::string& frame : seed_frames()) {
    ASSERT_TRUE(worker::decode(frame));
    fuzz_message(frame);
  }
}

TEST(MessageFuzz, MutationsAreRefusedOrStable) {
  Mutator mutator(seed_frames());
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    const std::string frame = mutator.next();
    fuzz_message(frame);
    accepted += worker::decode(frame) ? 1 : 0;
  }
  // If nearly all were refused, or accepted, the mutations would test nothing.
  EXPECT_GT(accepted, kRounds / 50);
  EXPECT_LT(accepted, kRounds * 9 / 10);
}

// Inputs that once failed, or that libFuzzer found to be interesting.
TEST(MessageFuzz, Corpus) {
  int files = 0;
  const std::filesystem::path folder = LARES_SOURCE_DIR "/tests/fuzz/corpus/message";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path());
    std::ifstream in(entry.path(), std::ios::binary);
    fuzz_message(std::string(std::istreambuf_iterator<char>(in), {}));
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace lares::fuzz
