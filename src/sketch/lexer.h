// Splits a sketch's text into tokens with their places. Continuation lines are joined, comments
// are kept: a comment inside of a line (behind a continued part, or in brackets) moves before it.
//
// Pure; linear in the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sketch/problem.h"
#include "sketch/tree.h"

namespace lares::sketch {

struct Token {
  enum class Kind : std::uint8_t {
    Word,
    Text,
    Number,
    Size,
    Fraction,  // "8/20", in types
    Handle,
    Comment,  // A line of its own.
    Bar,
    Equals,
    Colon,
    Open,
    Close,
    OpenList,
    CloseList,
    LineEnd,  // `text` may be the comment before it.
    End,
  };

  Kind kind = Kind::End;
  Place place;
  std::string text;  // Word, Text (escapes resolved), Handle (the id), Comment.
  Number number;
  Size size;
  bool gap = false;      // The first of a line, after an empty line.
  bool comment = false;  // Of a LineEnd: `text` is one.
  bool broken = false;   // Of a LineEnd: a problem was found in its line.
};

struct Lexed {
  std::vector<Token> tokens;  // Every line ends in LineEnd; the last token is End.
  Problems problems;  // L1, L2. Where a token made no sense, the rest of its line is left out.
};
Lexed lex(std::string_view text, const Limits& limits);

// "`smaple`", "the text \"a b\"", "the end of the line": for messages.
std::string described(const Token& token);

}  // namespace lares::sketch
