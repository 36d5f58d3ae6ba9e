#include "text/llama/literal_trie.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lares::text {
namespace {

// Shorter lists are left alone.
constexpr std::size_t kAtLeast = 4;
// Groups within each other; llama.cpp's parser calls itself once for each.
constexpr int kDepthMax = 100;

// A literal's letters as they are written: "a", "\\n", "\\u00e9".
using Letters = std::vector<std::string_view>;

std::size_t letter_size(std::string_view text) {
  if (text.front() == '\\' && text.size() > 1) {
    const std::size_t digits = text[1] == 'x' ? 2 : text[1] == 'u' ? 4 : text[1] == 'U' ? 8 : 0;
    return std::min(text.size(), 2 + digits);
  }
  std::size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) ++size;
  return size;
}

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

// Takes "..." from the front. Nothing if there is none.
std::optional<Letters> take_literal(std::string_view& text) {
  if (!text.starts_with('"')) return std::nullopt;
  std::string_view rest = text.substr(1);
  Letters letters;
  while (!rest.empty() && rest.front() != '"') {
    const std::size_t size = letter_size(rest);
    letters.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  if (rest.empty()) return std::nullopt;
  text = rest.substr(1);
  return letters;
}

// Takes ("..." | "...") from the front.
std::optional<std::vector<Letters>> take_list(std::string_view& text) {
  std::string_view rest = text.substr(1);
  std::vector<Letters> list;
  while (true) {
    skip_blanks(rest);
    auto letters = take_literal(rest);
    if (!letters) return std::nullopt;
    list.push_back(std::move(*letters));
    skip_blanks(rest);
    if (rest.empty()) return std::nullopt;
    const char next = rest.front();
    rest.remove_prefix(1);
    if (next == ')') break;
    if (next != '|') return std::nullopt;
  }
  text = rest;
  return list;
}

void append_literal(std::string& out, std::span<const std::string_view> letters) {
  out += '"';
  for (const std::string_view letter : letters) out += letter;
  out += '"';
}

// What follows the first `from` letters, which the sorted literals have in common.
void append_tree(std::string& out, std::span<const Letters> list, std::size_t from, int depth) {
  const bool ends = list.front().size() == from;  // Sorted: the shortest comes first.
  while (!list.empty() && list.front().size() == from) list = list.subspan(1);
  if (list.empty()) {
    out += "\"\"";
    return;
  }
  out += '(';
  bool first = true;
  while (!list.empty()) {
    std::size_t n = 1;
    while (depth < kDepthMax && n < list.size() && list[n][from] == list[0][from]) ++n;
    const auto group = list.first(n);
    list = list.subspan(n);
    std::size_t common = group.front().size();
    for (std::size_t i = 0; i < group.back().size() && n > 1; ++i) {
      if (i < common && group.front()[i] != group.back()[i]) common = i;
    }
    if (n > 1) common = std::min(common, group.back().size());
    if (!std::exchange(first, false)) out += " | ";
    append_literal(out, std::span(group.front()).subspan(from, common - from));
    if (n > 1) {
      out += ' ';
      append_tree(out, group, common, depth + 1);
    }
  }
  out += ends ? ")?" : ")";
}

}  // namespace

std::string with_literal_trees(std::string_view gbnf) {
  std::string out;
  out.reserve(gbnf.size());
  while (!gbnf.empty()) {
    const char c = gbnf.front();
    std::string_view rest = gbnf;
    if (c == '(') {
      auto list = take_list(rest);
      if (list && list->size() >= kAtLeast) {
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
        append_tree(out, *list, 0, 0);
        gbnf = rest;
        continue;
      }
      rest = gbnf.substr(1);
    } else if (c == '"') {
      if (!take_literal(rest)) rest = gbnf.substr(1);
    } else if (c == '[') {  // Quotes and brackets mean nothing in a class of characters.
      std::size_t end = 1;
      while (end < gbnf.size() && gbnf[end] != ']') end += gbnf[end] == '\\' ? 2 : 1;
      rest = gbnf.substr(std::min(end + 1, gbnf.size()));
    } else {
      rest = gbnf.substr(1);
    }
    out += gbnf.substr(0, gbnf.size() - rest.size());
    gbnf = rest;
  }
  return out;
}

}  // namespace lares::text
