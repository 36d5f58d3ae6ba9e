// Everything that reads a tokenizer or a chat template: what the text worker does.
//
// Plain values in and out (worker/message.h encodes them). One thread. Implementations: LlamaText
// on llama.cpp's vocabulary-only models and its `common` library; ByteText, one token a byte, for
// tests that link no llama.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/constraint.h"
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

enum class ToolChoice : std::uint8_t { Auto, Required, None };

// A chat to be written out by the model's template and tokenised.
struct RenderChat {
  ModelId model;
  std::string messages;  // JSON array, OpenAI's form, already checked for types.
  std::string tools;     // JSON array or "".
  std::string options;   // JSON object of template arguments or "".
  bool add_generation_prompt = true;
  ToolChoice tool_choice = ToolChoice::Auto;
  std::string tool_name{};  // With Required: the one that must be called; "" = any.
  std::optional<bool> parallel_tool_calls{};  // Nothing: if the template can write them.
  std::string schema{};                       // JSON schema that the answer must fit, or "".
};

// How an answer is taken apart. Opaque to all but the text worker that made it.
struct ChatParser {
  std::uint8_t format = 0;
  bool tool_calls = false;          // Whether calls are looked for.
  std::string generation_prompt{};  // What the prompt ended with: the parser begins there.
  std::string rules{};
};

// A control token that belongs to the answer's text for the parser: "<tool_call>".
struct ShownToken {
  std::int32_t token = 0;
  std::string text;
};

struct Rendered {
  std::vector<std::int32_t> tokens;
  // Strings at which this template's answers end, beside EOG tokens.
  std::vector<std::string> stops;
  Constraint constraint{};
  std::vector<ShownToken> shown{};
  std::optional<ChatParser> parser{};  // Nothing: what is generated is the content as it is.
};

// An answer, or its beginning, to be taken apart.
struct ParseChat {
  std::uint64_t key = 0;               // Names the parser.
  std::optional<ChatParser> parser{};  // Needed the first time the worker hears of `key`.
  std::string text{};                  // Everything generated so far.
  bool partial = false;                // More may come.
};

struct ToolCall {
  std::string id;  // "" unless the model gave one.
  std::string name;
  std::string arguments;  // JSON, or the beginning of it.
};

struct ParsedChat {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> calls;
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
  // Errors: NotFound (a key never heard of, or forgotten since: send the parser again), Invalid (a
  // whole answer that does not have the form it should).
  virtual Result<ParsedChat> parse(const ParseChat& chat) = 0;
  virtual Result<std::vector<std::int32_t>> tokenize(const Tokenize& request) = 0;
};

}  // namespace lares::text
