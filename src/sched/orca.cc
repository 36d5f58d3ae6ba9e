// orca: iteration-level scheduling, first come first served (Yu et al., "Orca: A Distributed
// Serving System for Transformer-Based Generative Models", OSDI 2022, algorithm 1): before every
// step, finished requests leave and waiting ones join, in the order of their arrival, while there
// is room. A prompt is read whole, in the step in which its request joins.
#include "sched/policy.h"

namespace lares::sched {
namespace {

class Orca final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "orca"; }
  [[nodiscard]] Traits traits() const override { return {.whole_prompts = true}; }
  [[nodiscard]] Rank rank(const Candidate& c) const override { return {.arrival = c.arrival}; }
};

}  // namespace

std::unique_ptr<Policy> make_orca() {
  return std::make_unique<Orca>();
}

}  // namespace lares::sched
