// What a worker gives up before it opens a file that somebody else made: the network, starting
// other programs, and the calls that attack a kernel. A model file that takes over its worker stays
// in it.
//
// By a seccomp filter of its own process, all threads, for good. It may still read and write files
// as its user may: that is for the service's unit (packaging/).
#pragma once

#include "core/result.h"

namespace lares::worker {

// Calls that are given up answer EPERM. Errors: Unavailable where the system has no such filters;
// then nothing was changed.
Result<> enter_sandbox();

}  // namespace lares::worker
