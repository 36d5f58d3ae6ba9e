#include "text/llama/grammar_choice.h"

#include <gtest/gtest.h>

namespace lares::text {
namespace {

TEST(EitherGrammar, RulesOfTheSameNameStayApart) {
  EXPECT_EQ(either_grammar("root ::= \"a\" word", "root ::= word | x-1"),
            "root ::= a-root | b-root\n"
            "a-root ::= \"a\" a-word\n"
            "b-root ::= b-word | b-x-1\n");
}

TEST(EitherGrammar, WhatIsNoNameStaysAsItIs) {
  const std::string rules =
      R"(root ::= "say \"no\" x" [a-z\]b] (q{2,3})? <think> <[12]> . # a note)"
      "\n";
  EXPECT_EQ(either_grammar(rules, "root ::= \"\""),
            "root ::= a-root | b-root\n"
            "a-root ::= \"say \\\"no\\\" x\" [a-z\\]b] (a-q{2,3})? <think> <[12]> . # a note\n\n"
            "b-root ::= \"\"\n");
}

TEST(EitherGrammar, WhatDoesNotEndIsTakenAsItStands) {
  EXPECT_EQ(either_grammar("root ::= \"abc\\", "[a"),
            "root ::= a-root | b-root\na-root ::= \"abc\\\n[a\n");
}

}  // namespace
}  // namespace lares::text
