// `lares serve`: reads the configuration, wires everything, and runs until it is told to stop.
#pragma once

#include <span>
#include <string>

namespace lares::app {

// Arguments after the verb; the flags of app/settings.h. The first line on standard output is
// `listening on http://ADDR:PORT`. Returns the exit status: 0 after SIGTERM or SIGINT, 2 for a
// wrong configuration, 1 for what the machine refuses (port in use, data folder that cannot be
// written).
int run_serve_command(std::span<const std::string> arguments, const std::string& executable);

}  // namespace lares::app
