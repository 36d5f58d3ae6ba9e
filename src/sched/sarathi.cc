// sarathi: stall-free batching (Agrawal et al., "Taming Throughput-Latency Tradeoff in LLM
// Inference with Sarathi-Serve", OSDI 2024, algorithm 3): every step takes all decodes first, then
// a chunk of each prompt that is being read, then new requests, first come first served, until the
// fixed token budget is spent.
#include "sched/policy.h"

namespace lares::sched {
namespace {

class Sarathi final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "sarathi"; }
  [[nodiscard]] Traits traits() const override { return {}; }
  [[nodiscard]] Rank rank(const Candidate& c) const override {
    return {.group = c.started ? 0U : 1U, .arrival = c.arrival};
  }
};

}  // namespace

std::unique_ptr<Policy> make_sarathi() {
  return std::make_unique<Sarathi>();
}

}  // namespace lares::sched
