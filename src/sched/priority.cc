// priority: classes with reserved headroom, after Llumnix (Sun et al., "Llumnix: Dynamic
// Scheduling for Large Language Model Serving", OSDI 2024, section 4.4): classes go in their
// configured order, first come first served within one, and a part of the memory is kept free of
// all but the first class, so that its requests never queue behind the others' work.
#include "sched/policy.h"

namespace lares::sched {
namespace {

class Priority final : public Policy {
 public:
  explicit Priority(std::uint32_t headroom) : headroom_(headroom) {}

  [[nodiscard]] std::string_view name() const override { return "priority"; }
  [[nodiscard]] Traits traits() const override { return {}; }
  [[nodiscard]] Rank rank(const Candidate& c) const override {
    return {.group = c.cls, .arrival = c.arrival};
  }
  [[nodiscard]] bool may_start(const Moment& moment) const override {
    const bool room = moment.cls == 0 || moment.running == 0 || moment.room >= headroom_;
    return room && moment.tokens_left > 0;
  }

 private:
  std::uint32_t headroom_;
};

}  // namespace

std::unique_ptr<Policy> make_priority(const PolicyOptions& options) {
  return std::make_unique<Priority>(options.headroom);
}

}  // namespace lares::sched
