// `lares chat`: a chat in the terminal with a running server, or one question from a script.
#pragma once

#include <span>
#include <string>

namespace lares::app {

// Arguments after the verb; see kHelp in the source. Returns the exit status: 0, 1 for what the
// server or the disk refused, 2 for wrong arguments, 130 if a single question was interrupted.
int run_chat_command(std::span<const std::string> arguments);

}  // namespace lares::app
