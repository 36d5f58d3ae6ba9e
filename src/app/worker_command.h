// `lares worker ...`: what a child process runs. Started by `lares serve`, not by people.
#pragma once

#include <span>
#include <string>

namespace lares::app {

// Arguments after the verb:
//   --fd N --parent PID --engine llm|sim [--threads N] --device    serve a device
//   --fd N --parent PID --engine llm|sim --text                    serve templates and tokens
//   --fd N --parent PID --engine llm|sim --probe FILE              write FILE's ModelInfo and end
// Returns the exit status: 0 when the channel closed or the probe's result was written, 2 for wrong
// arguments, 1 when the engine cannot be made.
int run_worker_command(std::span<const std::string> arguments);

}  // namespace lares::app
