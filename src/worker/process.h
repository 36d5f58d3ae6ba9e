// One child process: started with a single extra descriptor, ended and reaped by its owner.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace lares::worker {

// Not copyable: the owner reaps it. While it is not reaped its pid is not given to anybody else, so
// a kill by pid cannot hit a stranger.
class Process {
 public:
  // Where the child finds the descriptor that it is given; 0 is /dev/null, 1 and 2 our standard
  // error.
  static constexpr int kChildFd = 3;

  // Runs `executable` with `arguments` (without argv[0]). The child gets `fd` as kChildFd and no
  // other descriptor, default signal handling, and a process group of its own, so that Ctrl-C in a
  // terminal reaches the server alone. Errors: Io.
  static Result<Process> start(const std::string& executable,
                               const std::vector<std::string>& arguments, int fd);

  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();  // kill() and reap.

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill();
  // Waits for its end: "was killed by signal 11 (Segmentation fault)", "ended with status 1".
  // REQUIRES: not called before.
  std::string wait();

 private:
  explicit Process(pid_t pid) : pid_(pid) {}

  pid_t pid_ = 0;  // 0 once reaped.
};

}  // namespace lares::worker
