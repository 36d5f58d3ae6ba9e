// lares: what the project exists for (docs/adr/0006-who-goes-first.md).
//
//   due      a member's oldest job of a class, unserved for longer than the class's longest wait
//            first; whose member and class was given nothing for longest. Of a member ahead of
//            another of the class: one in each longest wait
//   starved  a class below its floor share over the last window
//            next, most starved first
//   urgent   slack below the guard, the deadline not yet past, in a class within its guaranteed
//            share (or any class, when no other waits), of a member not ahead of another
//            next, least slack first
//   fair     everything else, past deadlines included
//            the member who was served least, first; then that member's task
//
// So nothing starves, an overload has no domino effect, and neither a class nor a member buys speed
// beyond its share.
#include "sched/policy.h"

namespace lares::sched {
namespace {

enum Group : std::uint32_t { kDue, kStarved, kUrgent, kFair };

class Lares final : public Policy {
 public:
  explicit Lares(Duration guard) : guard_(guard) {}

  [[nodiscard]] std::string_view name() const override { return "lares"; }
  [[nodiscard]] Traits traits() const override { return {.by_time = true, .fair_tasks = true}; }

  [[nodiscard]] Rank rank(const Candidate& c) const override {
    if (c.oldest && (c.ahead ? c.passed_over : c.unserved) > c.spec->longest_wait) {
      return {.group = kDue, .key = -c.passed_over.count(), .arrival = c.arrival};
    }
    if (c.others_wait && c.class_share < c.spec->floor) {
      const std::int64_t lack = std::int64_t{c.spec->floor} - c.class_share;
      return {.group = kStarved, .key = -lack, .then = c.member_service, .arrival = c.arrival};
    }
    const bool within = c.class_share < c.spec->guaranteed || !c.others_wait;
    if (c.has_deadline && !c.late && c.slack < guard_ && within && !c.ahead) {
      return {.group = kUrgent, .key = c.slack.count(), .arrival = c.arrival};
    }
    return {.group = kFair, .key = c.member_service, .then = c.task_service, .arrival = c.arrival};
  }

  // What does not fit holds back what ranks behind it: a large request of somebody served little
  // would else wait for as long as small ones of others keep coming. Not for longer than its
  // class's longest wait: then it is due, and room is made.
  [[nodiscard]] bool is_due(const Rank& rank) const override { return rank.group == kDue; }
  [[nodiscard]] bool presses(const Rank& rank) const override {
    return rank.group == kDue || rank.group == kUrgent;
  }

 private:
  Duration guard_;
};

}  // namespace

std::unique_ptr<Policy> make_lares(const PolicyOptions& options) {
  return std::make_unique<Lares>(options.guard);
}

}  // namespace lares::sched
