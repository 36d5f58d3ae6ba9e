// Starts and ends child processes: the two kinds of worker, and the throw-away probe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "engine/engine.h"
#include "worker/channel.h"

namespace lares::worker {

enum class Kind : unsigned char { Device, Text };

// A worker that is running: a process, or a thread in tests.
class Worker {
 public:
  virtual ~Worker() = default;  // Ends it (SIGKILL for a process) and reaps it.
  [[nodiscard]] virtual Channel& channel() = 0;
  [[nodiscard]] virtual pid_t pid() const = 0;  // 0 for a thread.
  // SIGKILL, for a worker that hangs; the channel then reports the end.
  virtual void kill() = 0;
};

// Where workers come from; the one seam that tests replace.
class WorkerFactory {
 public:
  virtual ~WorkerFactory() = default;
  virtual Result<std::unique_ptr<Worker>> start(Kind kind) = 0;
  // Opens a model file in a throw-away child, without allocating its weights, within a time limit.
  // A crash or a hang of the child is an error for this file: Corrupt, with what is known.
  virtual Result<engine::ModelInfo> probe(const std::string& path) = 0;
  // How often the system has ended a process because memory ran out; only whether it grew counts.
  virtual std::uint64_t memory_kills() { return 0; }
};

struct ProcessOptions {
  std::string executable;                     // Our own binary: argv[0] of the children.
  std::vector<std::string> device_arguments;  // Appended for device workers: `--threads N`.
  Duration probe_limit = std::chrono::seconds(30);
  std::string engine = "llm";  // Or "sim". Every child gets `--engine` with it.
};

// Children are `executable worker --fd 3 --parent PID --engine NAME` and then `--device`, `--text`
// or
// `--probe FILE` (app/worker_command.h). They get no other descriptor, die with the server, make no
// core dump, and their standard error is ours.
//
// `start` is called by a thread that lives as long as the worker: the kernel ties "die with the
// parent" to the thread that started the child. Destroying a worker waits until the kernel has
// taken its process down, which for much memory takes a moment.
std::unique_ptr<WorkerFactory> process_workers(ProcessOptions options);

}  // namespace lares::worker
