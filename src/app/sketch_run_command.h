// `lares sketch run` and `lares sketch check --server`: a sketch on a running server.
#pragma once

#include <span>
#include <string>

namespace lares::app {

// Arguments from `run` or `check` on. Returns the exit status: 0, 1 (the sketch is faulty or did
// not end well), 2 (the words of the command, or no server).
int run_sketch_on_server(std::span<const std::string> arguments);

}  // namespace lares::app
