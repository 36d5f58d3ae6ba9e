// fifo: request-level batching, as servers did before Orca. A batch in arrival order runs until all
// of it is finished, then the next one starts. The baseline that shows what joining costs to go
// without.
#include "sched/policy.h"

namespace lares::sched {
namespace {

class Fifo final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "fifo"; }
  [[nodiscard]] Traits traits() const override { return {}; }
  [[nodiscard]] Rank rank(const Candidate& c) const override { return {.arrival = c.arrival}; }
  [[nodiscard]] bool may_start(const Moment& moment) const override {
    return moment.running_at_start == 0 && moment.tokens_left > 0;
  }
};

}  // namespace

std::unique_ptr<Policy> make_fifo() {
  return std::make_unique<Fifo>();
}

}  // namespace lares::sched
