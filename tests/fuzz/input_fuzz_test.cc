// What comes in from outside, driven without libFuzzer. A failure prints its round.
#include "input_fuzz.h"

#include <gtest/gtest.h>

#include "mutator.h"

namespace lares::fuzz {
namespace {

const std::vector<std::string_view> kJson{
    "{",         "}",         "[",        "]",      ",",
    ":",         "\"",        "null",     "true",   "-1",
    "1e999",     "\\u0000",   "\\ud800",  "\xff",   "[[[[[[",
    "{\"a\":",   "\"role\"",  "\"tool\"", "\"n\":", "0",
    "99999999",  "2.5",       "\"stop\"", "[]",     "\"messages\"",
    "\"tools\"", "\"format\""};
const std::vector<std::string_view> kToml{
    "[",          "]",  "=", "\"",  "\n",     "true",   "-1", "1e9", "[[model]]\n",
    "[server]\n", "''", "#", "\\u", "10 MiB", "\"5m\"", ".",  "inf", "[jobs]\n"};
const std::vector<std::string_view> kBytes{
    std::string_view("\0\0\0\0", 4), "\xff\xff\xff\xff", "IDAT", "IEND", "PLTE", "tRNS", "\x89PNG"};

void run(const char* folder, const std::vector<std::string_view>& pieces, int rounds,
         void (*fuzz)(std::string_view)) {
  const std::vector<std::string> seeds = corpus(folder);
  ASSERT_GT(seeds.size(), 2U) << folder;
  for (const std::string& seed : seeds) fuzz(seed);
  Mutator mutator(seeds, pieces);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    fuzz(mutator.next());
  }
}

TEST(InputFuzz, OpenAiBodies) {
  run("body", kJson, 40000, &fuzz_openai_body);
}
TEST(InputFuzz, OllamaBodies) {
  run("body", kJson, 40000, &fuzz_ollama_body);
}
TEST(InputFuzz, EmbedBodies) {
  run("body", kJson, 20000, &fuzz_embed_body);
}
TEST(InputFuzz, Settings) {
  run("settings", kToml, 10000, &fuzz_settings);
}
TEST(InputFuzz, Pictures) {
  run("png", kBytes, 5000, &fuzz_png);
}

}  // namespace
}  // namespace lares::fuzz
