// What an answer must look like, and how it is taken apart again: from the parameters that common
// makes with a prompt. One thread; throws what common throws.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

#include <chat.h>
#include <llama.h>

#include "core/result.h"
#include "text/llama/control_guard.h"
#include "text/text_engine.h"

namespace lares::text {

// A grammar is refused beyond this: the device worker reads it between two steps.
inline constexpr std::size_t kGrammarBytesMax = 1U << 20U;

// What was asked for beside words. With both, the answer is a call or keeps the schema.
struct AnswerWish {
  bool tools = false;
  std::string schema;      // JSON, looked over.
  std::string call_first;  // The grammar of a call alone, where one must or may begin; or "".
};

// Where the answer must hold a call, common's grammar takes any words before it, which a small
// model may never end. The grammar of the call alone, where the template's calls have a mark of
// their own; else "".
std::string call_grammar(const common_chat_templates* templates,
                         common_chat_templates_inputs inputs);

// Fills in constraint, parser and shown tokens. Errors: Invalid, TooLarge (the grammar cannot be
// used), Unsupported (the template cannot have both).
Result<> describe_answer(const llama_vocab* vocab, const ControlGuard& guard,
                         common_chat_params params, const AnswerWish& wish, Rendered& out);

// The parsers at work, by key. The least recently used is forgotten.
class ChatParsers {
 public:
  explicit ChatParsers(std::size_t most = 256) : most_(most) {}
  Result<ParsedChat> parse(const ParseChat& chat);

 private:
  struct Entry {
    common_chat_parser_params params;
    std::list<std::uint64_t>::iterator used;
  };
  Result<Entry*> find(const ParseChat& chat);

  std::size_t most_;
  std::list<std::uint64_t> order_;  // Most recently used first.
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace lares::text
