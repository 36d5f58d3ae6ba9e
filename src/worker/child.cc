#include "worker/child.h"

#include <csignal>
#include <cstdlib>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/log.h"
#include "worker/sandbox.h"

namespace lares::worker {

Result<> become_child(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before that line took effect; then somebody else has adopted us.
  if (::getppid() != parent) {
    return fail(Code::Unavailable, fmt::format("the server, process {}, is gone", parent));
  }
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::setenv("GGML_NO_BACKTRACE", "1", 1);
  ::unsetenv("GGML_BACKEND_PATH");
  if (const Result<> in = enter_sandbox(); !in)
    log_warn("this worker runs without a sandbox", {{"reason", in.error().message}});
  return {};
}

}  // namespace lares::worker
