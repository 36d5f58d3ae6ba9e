#include "text/llama/grammar_choice.h"

#include <algorithm>

namespace lares::text {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// The length of what begins with `open` and ends with `close`: a literal, a class of characters.
std::size_t enclosed(std::string_view text, char close) {
  std::size_t end = 1;
  while (end < text.size() && text[end] != close) end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

// What stands at the front and holds no name of a rule. 0: nothing of the kind does.
std::size_t foreign(std::string_view text) {
  switch (text.front()) {
    case '"': return enclosed(text, '"');
    case '[': return enclosed(text, ']');
    case '{': return enclosed(text, '}');  // So many times.
    case '<': return enclosed(text, '>');  // A token.
    case '#': return std::min(text.find('\n'), text.size());
    default: return 0;
  }
}

void append_renamed(std::string& out, std::string_view gbnf, std::string_view front) {
  bool in_name = false;
  while (!gbnf.empty()) {
    const std::size_t size = std::max<std::size_t>(foreign(gbnf), 1);
    const bool name = is_name(gbnf.front());
    if (name && !in_name) out += front;
    in_name = name;
    out += gbnf.substr(0, size);
    gbnf.remove_prefix(size);
  }
  out += '\n';
}

}  // namespace

std::string either_grammar(std::string_view first, std::string_view second) {
  std::string out = "root ::= a-root | b-root\n";
  append_renamed(out, first, "a-");
  append_renamed(out, second, "b-");
  return out;
}

}  // namespace lares::text
