// vtc: virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI
// 2024, algorithm 2): the waiting request of the client with the least counter joins first.
// Counters are charged 1 for a prompt token at admission and 2 for each token of output as it is
// made; a client that has nothing waiting when it enqueues is lifted to the least counter of those
// that wait, or, if nobody does, to that of the client that left the queue last (accounts.h).
#include "sched/policy.h"

namespace lares::sched {
namespace {

class Vtc final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "vtc"; }
  [[nodiscard]] Traits traits() const override {
    return {.currency = Currency::Tokens, .whole_prompts = true};
  }
  [[nodiscard]] Rank rank(const Candidate& c) const override {
    if (c.started) return {.group = 0, .arrival = c.arrival};
    return {.group = 1, .key = c.member_counter, .arrival = c.arrival};
  }
};

}  // namespace

std::unique_ptr<Policy> make_vtc() {
  return std::make_unique<Vtc>();
}

}  // namespace lares::sched
