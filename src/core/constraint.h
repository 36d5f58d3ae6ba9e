// A grammar that an answer must follow: made by the text worker from tools and schemas, followed by
// the engine. Plain data that travels with a sequence; "" in `grammar` means that anything goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lares {

struct Constraint {
  std::string grammar;  // GBNF; its root is called "root".

  // What the prompt ends with and the grammar begins with: the model's turn has begun already.
  std::vector<std::int32_t> prefill;

  // Lazy: words are free until a trigger appears, and the grammar begins with the trigger.
  bool lazy = false;
  std::vector<std::string> trigger_words;
  std::vector<std::string> trigger_patterns;  // ECMAScript; the grammar begins at the first group.

  // While the model thinks, nothing triggers. Empty `think_begin`: this model does not.
  std::string think_begin;
  std::vector<std::string> think_ends;
  bool thinking = false;  // The prompt ends inside such a thought.

  [[nodiscard]] bool empty() const { return grammar.empty(); }
  bool operator==(const Constraint&) const = default;
};

}  // namespace lares
