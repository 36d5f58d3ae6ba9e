#include "worker/sandbox.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <seccomp.h>
#include <sys/socket.h>

namespace lares::worker {
namespace {

using Filter = std::unique_ptr<void, decltype(&seccomp_release)>;

// The socket to the server is open already; nothing else is to be reached, nor reachable.
constexpr int kNetwork[] = {SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(accept),
                            SCMP_SYS(accept4)};
constexpr int kPrograms[] = {SCMP_SYS(execve), SCMP_SYS(execveat)};
// Other processes, mounts, the kernel itself; io_uring would do any of the others unseen.
constexpr int kKernel[] = {SCMP_SYS(ptrace),
                           SCMP_SYS(process_vm_readv),
                           SCMP_SYS(process_vm_writev),
                           SCMP_SYS(pidfd_getfd),
                           SCMP_SYS(io_uring_setup),
                           SCMP_SYS(io_uring_enter),
                           SCMP_SYS(bpf),
                           SCMP_SYS(perf_event_open),
                           SCMP_SYS(userfaultfd),
                           SCMP_SYS(keyctl),
                           SCMP_SYS(add_key),
                           SCMP_SYS(request_key),
                           SCMP_SYS(mount),
                           SCMP_SYS(umount2),
                           SCMP_SYS(pivot_root),
                           SCMP_SYS(chroot),
                           SCMP_SYS(setns),
                           SCMP_SYS(unshare),
                           SCMP_SYS(init_module),
                           SCMP_SYS(finit_module),
                           SCMP_SYS(delete_module),
                           SCMP_SYS(kexec_load),
                           SCMP_SYS(kexec_file_load),
                           SCMP_SYS(open_by_handle_at),
                           SCMP_SYS(swapon),
                           SCMP_SYS(swapoff),
                           SCMP_SYS(reboot)};

Result<> check(int status, const char* what) {
  if (status == 0) return {};
  return fail(Code::Unavailable, fmt::format("{}: {}", what, std::strerror(-status)));
}

Result<> give_up(scmp_filter_ctx filter, std::span<const int> calls) {
  for (const int call : calls) {
    const int status = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0);
    // One that this kind of processor does not have cannot be called either.
    if (status != -EDOM) TRY_VOID(check(status, "a rule of the filter"));
  }
  return {};
}

}  // namespace

Result<> enter_sandbox() {
  const Filter filter(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
  if (!filter) return fail(Code::Unavailable, "no filter can be made");
  TRY_VOID(check(seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1), "for all threads"));
  TRY_VOID(give_up(filter.get(), kNetwork));
  TRY_VOID(give_up(filter.get(), kPrograms));
  TRY_VOID(give_up(filter.get(), kKernel));
  // Within this machine graphics drivers may speak to their helpers; connect() is given up all the
  // same, so what is left is a pair of one's own.
  TRY_VOID(check(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_NE, AF_UNIX)),
                 "the rule for sockets"));
  return check(seccomp_load(filter.get()), "loading the filter");
}

}  // namespace lares::worker
