// orca: iteration-level scheduling, first come first served (Yu et al., "Orca: A Distributed
// Serving System for Transformer-Based Generative Models", OSDI 2022, algorithm 1): before every
// step, finished requests leave and waiting ones join, in the order of their arrival, while there
// is room.
#include "sched/policy.h"

namespace lares::sched {
namespace {

class Orca final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "orca"; }

  [[nodiscard]] bool may_start(const Moment& moment) const override {
    return moment.tokens_left > 0;
  }
};

}  // namespace

std::unique_ptr<Policy> make_orca() {
  return std::make_unique<Orca>();
}

}  // namespace lares::sched
