// `lares bench`: a household's load against a server, and what each member felt of it.
#pragma once

#include <span>
#include <string>

namespace lares::app {

// Returns the exit status: 0, 2 for arguments that make no sense, 1 for what failed or if no
// request was answered, 130 if interrupted.
int run_bench_command(std::span<const std::string> arguments);

}  // namespace lares::app
