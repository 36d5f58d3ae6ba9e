// Everything that reads a tokenizer or a chat template: what the text worker does.
//
// Plain values in and out (worker/message.h encodes them). One thread. Implementations: LlamaText
// on llama.cpp's vocabulary-only models and its `common` library; ByteText, one token a byte, for
// tests that link no llama.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/types.h"

namespace lares::text {

// Bits of Vocabulary::flags.
inline constexpr std::uint8_t kTokenEndOfGeneration = 1;  // EOS, EOT and their like.
inline constexpr std::uint8_t kTokenControl = 2;          // Never shown to a person.

// The table that turns tokens into bytes without asking the text worker: piece i is
// bytes[offsets[i] .. offsets[i + 1]). Control tokens have empty pieces.
struct Vocabulary {
  ModelId model;
  std::vector<std::uint32_t> offsets;  // vocabulary size + 1
  std::string bytes;
  std::vector<std::uint8_t> flags;  // vocabulary size
  bool has_chat_template = false;
};

// A chat to be written out by the model's template and tokenised.
struct RenderChat {
  ModelId model;
  std::string messages;  // JSON array, OpenAI's form, already checked for types.
  std::string tools;     // JSON array or "".
  std::string options;   // JSON object of template arguments or "".
  bool add_generation_prompt = true;
};

struct Rendered {
  std::vector<std::int32_t> tokens;
  std::vector<std::string>
      stops;  // Strings at which this template's answers end, beside EOG tokens.
};

struct Tokenize {
  ModelId model;
  std::string text;
  bool add_special = true;     // BOS where the model wants one.
  bool parse_special = false;  // Whether "<|im_start|>" in the text is the control token.
};

class TextEngine {
 public:
  virtual ~TextEngine() = default;

  // Opens the vocabulary of a model file. Errors: NotFound, Corrupt, Unsupported.
  virtual Result<Vocabulary> load(ModelId model, const std::string& path) = 0;
  virtual void unload(ModelId model) = 0;
  // Errors: NotFound (model), Invalid (the template refused; the message says why), TooLarge.
  virtual Result<Rendered> render(const RenderChat& chat) = 0;
  virtual Result<std::vector<std::int32_t>> tokenize(const Tokenize& request) = 0;
};

}  // namespace lares::text
