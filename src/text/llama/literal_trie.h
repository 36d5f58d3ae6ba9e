// Long lists of literals in a grammar, written as a tree of their common beginnings.
//
// llama.cpp's grammars keep one stack for every alternative that is still possible and compare them
// all with each other at every letter: a list of ten thousand values stops the device for seconds.
// As a tree only the letters that differ are alternatives: ("a" | "ab" | "c") becomes
// ("a" ("b")? | "c"). Pure.
#pragma once

#include <string>
#include <string_view>

namespace lares::text {

// Rewrites every parenthesised list of nothing but literals; what is not well-formed stays as it
// is.
std::string with_literal_trees(std::string_view gbnf);

}  // namespace lares::text
