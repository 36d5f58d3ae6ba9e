// Tree -> canonical text: one blank between words, `| out` behind a flow, a flow that is longer
// than a line broken before each `|`.
//
// parse(print(tree)) == tree for trees in normal form (tree.h), so printing is stable.
#pragma once

#include <string>

#include "sketch/tree.h"

namespace lares::sketch {

std::string print(const Sketch& sketch);
std::string print(const Flow& flow);
std::string print(const TypeNote& type);
std::string print(const Value& value);

// The text in quotes, with its escapes.
std::string quoted(std::string_view raw);

}  // namespace lares::sketch
