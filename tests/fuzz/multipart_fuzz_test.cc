// The fuzzer of forms driven without libFuzzer: seeded mutations of good ones.

#include "multipart_fuzz.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace lares::fuzz {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr int kRounds = 200000;

const std::string kGood =
    "multipart/form-data; boundary=\"xyz\"\n"
    "--xyz\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na red apple\r\n"
    "--xyz\r\nContent-Disposition: form-data; name=image; filename=\"a\\\"b.png\"\r\n"
    "Content-Type: image/png\r\n\r\n\x89PNG\r\n--xy\r\n"
    "--xyz\r\nContent-Disposition: form-data; name=e\r\n\r\n\r\n--xyz--\r\n";

TEST(MultipartFuzz, MutationsAreRefusedOrWithinTheirBody) {
  std::mt19937_64 random(kSeed);
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  constexpr std::string_view kPieces[] = {"\r\n", "--xyz", "--", "\"", ";", "=", ":", "\\", "\n"};
  for (int round = 0; round < kRounds; ++round) {
    std::string input = kGood;
    for (std::size_t i = 0; i <= below(4); ++i) {
      const std::size_t at = below(input.size());
      switch (below(5)) {
        case 0: input[at] = static_cast<char>(random()); break;
        case 1: input.insert(at, kPieces[below(std::size(kPieces))]); break;
        case 2: input.erase(at, 1 + below(6)); break;
        case 3: input.resize(at + 1); break;
        default: input.insert(at, input.substr(below(input.size()), below(40)));
      }
    }
    SCOPED_TRACE(round);
    fuzz_multipart(input);
  }
}

}  // namespace
}  // namespace lares::fuzz
