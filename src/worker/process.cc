#include "worker/process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/assert.h"

namespace lares::worker {
namespace {

// The environment of the children: what could make the libraries fork a debugger when they abort,
// or load code from elsewhere, is set and taken out here, before their first instruction.
std::vector<std::string> child_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("GGML_BACKEND_PATH=") || text.starts_with("GGML_NO_BACKTRACE=")) continue;
    variables.emplace_back(text);
  }
  variables.emplace_back("GGML_NO_BACKTRACE=1");
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// posix_spawn rather than fork: the server has threads and may hold much memory; glibc's
// implementation shares the address space until the exec and does nothing unsafe in between.
struct SpawnPlan {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};

  explicit SpawnPlan(int fd) {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // Standard output carries the server's address for scripts; a child's words go to standard
    // error.
    posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, fd, Process::kChildFd);  // Also if it is that already.
    posix_spawn_file_actions_addclosefrom_np(&files, Process::kChildFd + 1);
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

Result<Process> Process::start(const std::string& executable,
                               const std::vector<std::string>& arguments, int fd) {
  std::vector<std::string> words{executable};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = child_environment();
  const SpawnPlan plan(fd);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, executable.c_str(), &plan.files, &plan.attributes,
                                  pointers(words).data(), pointers(variables).data());
  if (error != 0) {
    return fail(Code::Io,
                fmt::format("{} could not be started: {}", executable, std::strerror(error)));
  }
  return Process(pid);
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}

Process::~Process() {
  if (pid_ == 0) return;
  kill();
  wait();
}

void Process::kill() {
  if (pid_ != 0) ::kill(pid_, SIGKILL);
}

std::string Process::wait() {
  LARES_ASSERT(pid_ != 0, "a process is reaped once");
  int status = 0;
  pid_t reaped = 0;
  do {
    reaped = ::waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  pid_ = 0;
  if (reaped < 0) return "ended in an unknown way";
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("was killed by signal {} ({})", signal, ::strsignal(signal));
  }
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace lares::worker
