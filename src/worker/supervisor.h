// Starts and ends child processes: the two kinds of worker, and the throw-away probe.
#pragma once

#include <sys/types.h>

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
  // Opens a model file in a throw-away child, without allocating its weights, within a time limit. A
  // crash or a hang of the child is an error for this file: Corrupt, with what is known.
  virtual Result<engine::ModelInfo> probe(const std::string& path) = 0;
};

struct ProcessOptions {
  std::string executable;               // Our own binary: argv[0] of the children.
  std::vector<std::string> device_arguments;  // After `worker --device`.
  Duration probe_limit = std::chrono::seconds(30);
};

// Children are `executable worker --device|--text --fd N` and `executable worker --probe FILE`. They
// get no other descriptor, die with the server (PR_SET_PDEATHSIG), make no core dump, and their
// standard error is ours.
std::unique_ptr<WorkerFactory> process_workers(ProcessOptions options);

}  // namespace lares::worker
