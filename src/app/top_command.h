// `lares top`: what the server does now, in a terminal, redrawn in place; or once, for programs.
#pragma once

#include <span>
#include <string>

namespace lares::app {

// Arguments behind the verb. Returns the exit status: 0, 1 if there is no server or it refuses, 2
// for flags that make no sense.
int run_top_command(std::span<const std::string> arguments);

}  // namespace lares::app
