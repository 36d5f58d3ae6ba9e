// Sketch -> typed plan: every check of SKETCH's table, and the price, before anything runs.
//
// Pure: the same sketch and catalogue give the same plan. Linear in the sketch but for the choice
// of a model, which plans once for each candidate.
#pragma once

#include "sketch/catalogue.h"
#include "sketch/plan.h"
#include "sketch/tree.h"

namespace lares::sketch {

struct Planned {
  Plan plan;          // Whole only if there are no problems.
  Problems problems;  // In the order of the text.
};
Planned make_plan(const Sketch& sketch, const Catalogue& catalogue, const Limits& limits = {});

}  // namespace lares::sketch
