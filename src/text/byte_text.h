// A text engine without a model file: one token a byte, and three specials.
//
// For tests that link no llama.cpp, and for `--engine sim`. Token 0 ends a generation, 1 begins
// what a user (or the system, or a tool) says, 2 begins what the assistant says; byte b is token b
// + 3. The template writes each message as its marker, its content, and the end token. As strict as
// the real one about what is wrong: a model not loaded, messages that are no JSON array, none at
// all, too long.
//
// Tools, as far as tests need them: with tools offered, "<NAME ARGUMENTS>" in an answer is a call.
#pragma once

#include <set>
#include <string>

#include "text/text_engine.h"

namespace lares::text {

inline constexpr std::int32_t kByteEnd = 0;
inline constexpr std::int32_t kByteUser = 1;
inline constexpr std::int32_t kByteAssistant = 2;
inline constexpr std::int32_t kByteFirst = 3;
inline constexpr std::int32_t kByteVocabulary = kByteFirst + 256;

struct ByteTextOptions {
  // Longest text, in bytes; TooLarge beyond. 16 MiB, as the largest body.
  std::size_t text_bytes = std::size_t{16} << 20U;
  // Whether load() refuses a path where there is no file.
  bool needs_file = false;
};

class ByteText : public TextEngine {
 public:
  explicit ByteText(ByteTextOptions options = {});

  Result<Vocabulary> load(ModelId model, const std::string& path) override;
  void unload(ModelId model) override;
  Result<Rendered> render(const RenderChat& chat) override;
  Result<std::vector<std::int32_t>> tokenize(const Tokenize& request) override;
  Result<ParsedChat> parse(const ParseChat& chat) override;

 private:
  Result<> check(ModelId model, std::size_t bytes) const;

  ByteTextOptions options_;
  std::set<ModelId> models_;
  std::set<std::uint64_t> parsers_;
};

}  // namespace lares::text
