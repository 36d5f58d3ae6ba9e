#include "engine/llm/probe.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "core/test_folder.h"
#include "engine/llm/info.h"
#include "engine/llm/llm_engine.h"

namespace lares::llm {
namespace {

const std::string kPath = LARES_SOURCE_DIR "/models/starter/chat/starter-chat-q8_0.gguf";

std::string model_bytes() {
  std::ifstream file(kPath, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes a file of that name and returns its path.
std::string write(const std::string& name, const std::string& bytes) {
  const std::string path = test_file(name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// Probing and loading must agree on what is wrong, and say which file.
void expect_refused(const std::string& path, Code code, const std::string& words) {
  const auto probed = probe_model(path);
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().code, code) << probed.error().message;
  EXPECT_NE(probed.error().message.find(words), std::string::npos) << probed.error().message;
  EXPECT_NE(probed.error().message.find(path), std::string::npos) << probed.error().message;
  auto engine = LlmEngine::create({});
  ASSERT_TRUE(engine);
  engine::LoadSpec spec;
  spec.path = path;
  spec.sequences = 1;
  const auto loaded = (*engine)->load(spec);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
}

TEST(Probe, StarterModel) {
  const auto info = probe_model(kPath);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->architecture, "qwen3");
  EXPECT_NE(info->description.find("Q8_0"), std::string::npos) << info->description;
  EXPECT_NEAR(static_cast<double>(info->parameters), 5.77e6, 0.1e6);
  EXPECT_EQ(info->context, 2048U);
  EXPECT_EQ(info->vocabulary, 4096U);
  EXPECT_EQ(info->embedding, 256U);
  EXPECT_EQ(info->kv_per_token.count, 4096);
  EXPECT_TRUE(info->can.cut_anywhere);
  EXPECT_TRUE(info->can.generates);
  EXPECT_FALSE(info->can.embeds);
  EXPECT_TRUE(info->can.has_chat_template);
}

TEST(Probe, NoSuchFileAndNoFile) {
  expect_refused("/nowhere/model.gguf", Code::NotFound, "No such file");
  expect_refused(testing::TempDir(), Code::Invalid, "not a file");
}

TEST(Probe, EmptyForeignAndRandom) {
  expect_refused(write("empty.gguf", ""), Code::Corrupt, "is empty");
  expect_refused(write("short.gguf", "GGUF"), Code::Corrupt, "truncated");
  expect_refused(write("foreign.gguf", std::string(4096, 'x')), Code::Corrupt, "not a GGUF file");
  expect_refused(write("magic.gguf", "GGUF" + std::string(4096, '\xee')), Code::Unsupported,
                 "version");
  std::string big = model_bytes().substr(0, 64);
  big[4] = big[5] = big[6] = 0;
  big[7] = 3;
  expect_refused(write("big.gguf", big), Code::Unsupported, "big-endian");
}

TEST(Probe, TruncatedAtEveryScale) {
  const std::string bytes = model_bytes();
  for (const double part : {0.00001, 0.001, 0.05, 0.5, 0.9999}) {
    const auto size = static_cast<std::size_t>(static_cast<double>(bytes.size()) * part);
    expect_refused(write("cut.gguf", bytes.substr(0, size)), Code::Corrupt, "truncated");
  }
}

TEST(Probe, DamagedHeadersAreErrors) {
  // Every byte of the first part of the header, changed, one at a time: an answer either way.
  const std::string bytes = model_bytes();
  for (std::size_t at = 8; at < 200; at += 3) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const auto probed = probe_model(write("damaged.gguf", damaged));
    EXPECT_TRUE(probed || !probed.error().message.empty());
  }
}

TEST(Probe, UnknownArchitecture) {
  std::string bytes = model_bytes();
  std::size_t changed = 0;
  for (std::size_t at = bytes.find("qwen3"); at != std::string::npos && at < 2'000'000;
       at = bytes.find("qwen3", at + 1)) {
    bytes.replace(at, 5, "qwenX");
    ++changed;
  }
  ASSERT_GT(changed, 0U);
  expect_refused(write("unknown.gguf", bytes), Code::Unsupported, "unknown model architecture");
}

TEST(Probe, SplitModels) {
  const std::string bytes = model_bytes();
  const std::string first = write("split-00001-of-00002.gguf", bytes);
  const std::string second = test_file("split-00002-of-00002.gguf");
  std::remove(second.c_str());
  const auto missing = check_model_file(first);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::NotFound);
  EXPECT_NE(missing.error().message.find(second), std::string::npos) << missing.error().message;
  write("split-00002-of-00002.gguf", bytes);
  EXPECT_TRUE(check_model_file(first));
  EXPECT_EQ(check_model_file(second).error().code, Code::Invalid);
}

}  // namespace
}  // namespace lares::llm
