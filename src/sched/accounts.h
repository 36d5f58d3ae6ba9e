// Who was served how much: a counter for each member, for each task within a member, and the
// classes' shares of the device over the last window.
//
// A member's counter is its service divided by its weight (virtual token counter; Sheng et al.,
// OSDI 2024). It grows only by what was measured; *order* adds the outstanding prediction of what
// already runs, which vanishes as the measurement arrives. A member who has nothing waiting and
// submits a job is lifted to the least counter among the members with jobs waiting, or, if there
// are none, to that of the member whose job left the queue last: idleness earns no credit. One
// whose jobs run keeps some of it, `credit`: it asks for what it is not given; but not more, for
// one small stream beside others that wait is all that somebody may want.
//
// Invariants (check()):
//   1. Counters never fall; a lift never lowers one. (Held by TestDevice, step by step.)
//   2. `outstanding` is the sum over the member's jobs, and 0 when none runs.
//   3. waiting and running are the numbers of the member's jobs. (With 2: Scheduler::check.)
//   4. The classes' windows add up to the device's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/types.h"

namespace lares::sched {

// What the configuration and the member's key say.
struct MemberLimits {
  std::uint32_t weight = 1000;    // Share beside others, in thousandths. 1..1000000.
  std::uint32_t running_max = 0;  // Jobs that run at once; more wait. 0 = no limit.
  std::uint32_t waiting_max = 0;  // Jobs that wait; more are rejected. 0 = no limit.
};

class Accounts {
 public:
  using Index = std::uint32_t;

  struct Member {
    MemberId id;
    MemberLimits limits;
    std::int64_t counter = 0;      // Service / weight.
    std::int64_t outstanding = 0;  // Predicted service of what runs / weight.
    std::uint32_t waiting = 0, running = 0;
    std::uint32_t lifts = 0;
    std::vector<std::uint32_t> output;  // By class: recent length, in sixteenths; 0 = none yet.
    Index no_task = 0;                  // The task of its jobs that name none.

    // What a member is ordered by: what it was served, and is expected to be.
    [[nodiscard]] std::int64_t service() const { return counter + outstanding; }
  };
  struct Task {
    TaskId id;
    Index member = 0;
    std::int64_t counter = 0;
    std::uint32_t jobs = 0;  // Waiting or running; at 0 a named task is forgotten.
  };

  // `credit`: in the policy's currency, over weight.
  Accounts(std::uint32_t classes, std::int64_t credit);

  Index member(MemberId id);  // Found or new.
  void set_limits(MemberId id, const MemberLimits& limits);
  Member& operator[](Index member) { return members_[member]; }
  const Member& operator[](Index member) const { return members_[member]; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }

  // A job enters the queue: lifts the member if it had nothing waiting, and the task if it had
  // nothing at all.
  Index submitted(Index member, TaskId task);
  // A waiting job leaves the queue: to run, or for good.
  void left_queue(Index member);
  void back_in_queue(Index member) { ++members_[member].waiting; }
  void started(Index member) { ++members_[member].running; }
  void stopped(Index member) { --members_[member].running; }
  void task_done(Index task);
  [[nodiscard]] const Task& task(Index task) const { return tasks_[task]; }

  // `service` in the policy's currency, undivided. The task may be gone: what it began is answered
  // late.
  void charge(Index member, Index task, TaskId id, std::int64_t service);
  // `service` divided by the member's weight, as counters are.
  [[nodiscard]] std::int64_t per_weight(Index member, std::int64_t service) const;

  // Recent output length of the member in the class; `unknown` until one has ended.
  [[nodiscard]] std::uint32_t output_expected(Index member, std::uint32_t cls,
                                              std::uint32_t unknown) const;
  void output_seen(Index member, std::uint32_t cls, std::uint32_t tokens);

  // Device time by class over the last ten seconds: up to the time that was last advanced to.
  void advance(Instant now);
  void class_served(std::uint32_t cls, Duration device);
  [[nodiscard]] std::uint32_t class_share(std::uint32_t cls) const;  // In thousandths.

  void check() const;

 private:
  static constexpr std::size_t kBuckets = 10;
  static constexpr Duration kBucket = std::chrono::seconds(1);
  struct Window {
    std::array<std::int64_t, kBuckets> served{};
    std::int64_t sum = 0;
  };

  void lift(Member& member);
  Index find_task(Index member, TaskId id);

  std::uint32_t classes_;
  std::int64_t credit_;
  std::vector<Member> members_;
  std::unordered_map<MemberId, Index> by_id_;  // Looked up, never iterated.
  Index last_ = 0;                             // The member whose job left the queue last.
  std::vector<Task> tasks_;
  std::vector<Index> free_tasks_;
  std::map<std::pair<Index, TaskId>, Index> named_tasks_;
  std::vector<Window> windows_;  // By class; the last one is the sum over all.
  std::int64_t bucket_ = 0;      // Number of the newest bucket since the timeline's zero.
};

}  // namespace lares::sched
