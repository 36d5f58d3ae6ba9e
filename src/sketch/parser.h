// Text -> tree. One token of look-ahead and the signature table decide everything.
//
// Pure. What is wrong comes back as values, several at once: after a problem the parser goes on
// with the next line. Recurses to limits.depth, no further.
#pragma once

#include <string_view>

#include "sketch/problem.h"
#include "sketch/tree.h"

namespace lares::sketch {

struct Parsed {
  Sketch sketch;      // In normal form (tree.h); what could be read, if there are problems.
  Problems problems;  // L1, L2, N3 (a reserved word bound), in the order of the text.
};
Parsed parse(std::string_view text, const Limits& limits = {});

}  // namespace lares::sketch
