// `lares simulate`: the scheduler against a cost table, on published or made-up arrivals.
#pragma once

#include <span>
#include <string>

namespace lares::app {

// Returns the exit status: 0, or 2 for arguments that make no sense, 1 for what failed.
int run_simulate_command(std::span<const std::string> arguments);

}  // namespace lares::app
