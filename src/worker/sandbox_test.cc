#include "worker/sandbox.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace lares::worker {
namespace {

// Runs `check` in a child that has entered the sandbox, for there is no way out of it. 0: as it
// should be; 77: this system has no filters.
template <class Check>
int in_sandbox(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(enter_sandbox() ? check() : 77);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

template <class Check>
void expect_in_sandbox(Check check) {
  const int got = in_sandbox(check);
  if (got == 77) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(got, 0);
}

TEST(Sandbox, NoNetwork) {
  expect_in_sandbox([] {
    for (const int family : {AF_INET, AF_INET6, AF_NETLINK}) {
      if (::socket(family, SOCK_STREAM, 0) != -1 || errno != EPERM) return 1;
    }
    const int own = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (own == -1) return 2;
    sockaddr somewhere{};
    somewhere.sa_family = AF_UNIX;
    if (::connect(own, &somewhere, sizeof somewhere) != -1 || errno != EPERM) return 3;
    return ::listen(own, 1) == -1 && errno == EPERM ? 0 : 4;
  });
}

TEST(Sandbox, NoOtherPrograms) {
  expect_in_sandbox([] {
    ::execl("/bin/true", "true", nullptr);
    return errno == EPERM ? 0 : 1;
  });
}

TEST(Sandbox, FilesPipesPairsAndThreadsGoOn) {
  expect_in_sandbox([] {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
    char letter = 'x';
    if (::send(pair[0], &letter, 1, 0) != 1 || ::recv(pair[1], &letter, 1, 0) != 1) return 2;
    const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (file == -1 || ::read(file, &letter, 1) != 1) return 3;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    int status = -1;
    return child > 0 && ::waitpid(child, &status, 0) == child && status == 0 ? 0 : 4;
  });
}

}  // namespace
}  // namespace lares::worker
