// What a child process does to itself before anything else.
#pragma once

#include <sys/types.h>

#include "core/result.h"

namespace lares::worker {

// Dies when `parent` does, leaves no core dump (it would hold prompts), cannot be traced by others
// of the same user, keeps the libraries from forking a debugger when they abort, and enters the
// sandbox, where there is one. Only the process itself can set these: they do not survive an exec.
// Errors: Unavailable when `parent` is
// gone already.
Result<> become_child(pid_t parent);

}  // namespace lares::worker
