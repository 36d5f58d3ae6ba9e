// Two grammars as one whose texts are those of either: an answer that is a call or keeps a schema.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace lares::text {

// Both are GBNF with a rule called "root". Rules of the same name stay apart: each gets a letter of
// its grammar in front.
std::string either_grammar(std::string_view first, std::string_view second);

}  // namespace lares::text
