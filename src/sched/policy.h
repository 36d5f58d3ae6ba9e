// What tells one scheduling policy from another; everything else is shared (step_builder.cc).
//
// A policy is chosen by name (`--policy`), is pure, and is asked at fixed points while a step is
// built.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace lares::sched {

// What a policy sees when it is asked whether the next waiting job may start now.
struct Moment {
  std::uint32_t running = 0;  // Jobs that have a sequence, those begun in this step included.
  std::uint32_t running_at_start = 0;  // The same when this step was begun.
  std::uint32_t tokens_left = 0;       // Of the step's token budget.
};

class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual bool may_start(const Moment& moment) const = 0;
};

std::unique_ptr<Policy> make_fifo();
std::unique_ptr<Policy> make_orca();

// The names, in the order in which help texts show them.
std::span<const std::string_view> policy_names();

// Errors: NotFound, naming the nearest.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name);

}  // namespace lares::sched
