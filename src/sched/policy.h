// What tells one scheduling policy from another; everything else is shared (step_builder.cc).
//
// Running streams are continued in every step. What a policy decides is the order of all that wants
// prompt tokens: running jobs whose prompt is not read to its end, and the first job of each lane
// of the waiting. A policy is chosen by name (`--policy`), is pure, and answers by plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/types.h"

namespace lares::sched {

// A class of work, as configured. Shares are in thousandths of the device's time.
struct ClassSpec {
  std::string name{};
  Duration first_target{};       // From submit to the first output; 0 = no target.
  Duration gap_target{};         // Between two outputs of a stream; 0 = no target.
  Duration completion_target{};  // From submit to the end; 0 = no target.
  std::uint32_t guaranteed = 0;  // Within it, work close to its deadline goes first.
  std::uint32_t floor = 0;       // Below it, work that waits goes before all that is not overdue.
  Duration longest_wait = std::chrono::seconds(60);  // Then a member's oldest job goes first.

  bool operator==(const ClassSpec&) const = default;
};

// What a policy knows of one job that could be given prompt tokens now.
struct Candidate {
  bool started = false;       // It runs; else it waits for a sequence.
  bool oldest = true;         // Of this member in this class: the longest unserved.
  bool others_wait = false;   // Some other class has a candidate, too.
  std::uint64_t arrival = 0;  // Order of arrival over all jobs.
  Duration unserved{};        // Since it was submitted, or last given anything.
  Duration passed_over{};     // The same, or since its member and class had its turn, if less.
  Duration slack{};           // To its deadline, less what is predicted to be still needed.
  bool has_deadline = false;  // Its class has a target for it.
  bool late = false;          // The deadline has passed.
  bool ahead = false;         // Its member was served much more than another of the class.
  std::int64_t member_service = 0;  // Counter and outstanding prediction, divided by the weight.
  std::int64_t member_counter = 0;  // The counter alone.
  std::int64_t task_service = 0;    // Of the job's task, within the member.
  std::uint32_t cls = 0;            // Index into the classes.
  std::uint32_t class_share = 0;    // Of the device time of the last window, in thousandths.
  const ClassSpec* spec = nullptr;
};

// Who goes first: compared field by field, less is earlier.
struct Rank {
  std::uint32_t group = 0;
  std::int64_t key = 0;
  std::int64_t then = 0;
  std::uint64_t arrival = 0;

  auto operator<=>(const Rank&) const = default;
};

// What a policy sees when it is asked whether a waiting job may start in the step being built.
struct Moment {
  std::uint32_t running = 0;  // Jobs that have a sequence, those begun in this step included.
  std::uint32_t running_at_start = 0;  // The same when this step was begun.
  std::uint32_t tokens_left = 0;       // Of the step's token budget.
  std::uint32_t room = 1000;           // Of the pool: not held by running jobs, in thousandths.
  std::uint32_t cls = 0;               // Of the job: index into the classes.
};

// How service is counted.
enum class Currency : std::uint8_t {
  DeviceTime,  // Nanoseconds of the device, measured.
  Tokens,      // 1 for a prompt token when it is admitted, 2 for one of output, as VTC.
};

struct Traits {
  Currency currency = Currency::DeviceTime;
  bool by_time = false;        // Steps are limited by time (slack, slices), not by tokens alone.
  bool whole_prompts = false;  // A prompt is read in one step, whatever its length.
  bool fair_tasks = false;     // A member's tasks share fairly; else first come, first served.
};

class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual Traits traits() const = 0;
  [[nodiscard]] virtual Rank rank(const Candidate& c) const = 0;
  // The job that ranks first among those that wait. If it may not, nobody behind it starts either.
  [[nodiscard]] virtual bool may_start(const Moment& moment) const {
    return moment.tokens_left > 0;
  }
  // Whether a job of that rank has waited so long that what has run for as long steps back for it.
  [[nodiscard]] virtual bool is_due(const Rank& /*rank*/) const { return false; }
  // Whether a job of that rank is pressing: running jobs of members served much more step back to
  // make room for it, and its prompt is read at any price.
  [[nodiscard]] virtual bool presses(const Rank& /*rank*/) const { return false; }
};

struct PolicyOptions {
  // lares: how close to its deadline a job becomes urgent.
  Duration guard = std::chrono::milliseconds(250);
  // priority: part of the pool kept free for the first class, in thousandths.
  std::uint32_t headroom = 125;
};

std::unique_ptr<Policy> make_fifo();
std::unique_ptr<Policy> make_orca();
std::unique_ptr<Policy> make_sarathi();
std::unique_ptr<Policy> make_vtc();
std::unique_ptr<Policy> make_priority(const PolicyOptions& options);
std::unique_ptr<Policy> make_lares(const PolicyOptions& options);

// The names, in the order in which help texts show them.
std::span<const std::string_view> policy_names();

// Errors: NotFound, naming the nearest.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);

}  // namespace lares::sched
