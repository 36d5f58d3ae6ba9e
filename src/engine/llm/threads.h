// Compute threads: a pool that sleeps while idle, and the decision how many of them to use.
//
// ggml's threads wait for each other by spinning. When another process takes one of the cores, all
// spin until the scheduler gives the missing one its turn: a step of 8 ms was measured at 270 ms.
// So the engine uses only as many threads as there are cores free of other people's work.
#pragma once

#include <cstdint>
#include <memory>

#include "core/result.h"
#include "core/types.h"

struct ggml_threadpool;
struct llama_context;

namespace lares::llm {

// ggml's CPU threads for one context. Between graphs they sleep (poll level 0).
class ThreadPool {
 public:
  // Nothing is created for a single thread: the caller computes alone. Errors: Unavailable.
  static Result<ThreadPool> create(std::uint32_t threads);
  // The pool must outlive the context, or be detached first.
  void attach(llama_context* context) const;

 private:
  struct Free {
    void operator()(ggml_threadpool* pool) const;
  };
  std::unique_ptr<ggml_threadpool, Free> pool_;
};

// How busy the cores were, since some fixed moment, all counters growing.
struct CpuTimes {
  Instant now;
  Duration machine{};       // Busy time of the cores we may run on: everybody's, ours included.
  Duration own{};           // CPU time of this process.
  std::uint32_t cores = 1;  // That we may run on.
};

// Reads /proc/stat, getrusage and the affinity mask; about 30 us. `machine` stays 0 where
// /proc/stat cannot be read, which the governor takes for a quiet machine.
CpuTimes read_cpu_times(Instant now);

// Decides how many threads to compute with. Pure; one thread.
//
// Others' load is a moving average with a half-life of 100 ms of (machine - own) / wall, in cores.
// Backing off follows it at once; coming back takes a second of quiet without interruption, so that
// a neighbour that stops to read a file does not lure us into its way. Small loads (below a quarter
// of a core: the server beside us, say) change nothing.
//
// Invariant: 1 <= threads() <= most.
class ThreadGovernor {
 public:
  explicit ThreadGovernor(std::uint32_t most);

  // True when an update would say something new: the last one is at least 100 ms old.
  [[nodiscard]] bool due(Instant now) const;
  // Returns threads().
  std::uint32_t update(const CpuTimes& times);
  void set_most(std::uint32_t most);

  [[nodiscard]] std::uint32_t threads() const { return threads_; }
  [[nodiscard]] double others() const { return others_; }  // Cores taken by others, smoothed.

 private:
  std::uint32_t most_;
  std::uint32_t threads_;
  bool started_ = false;
  bool quiet_ = false;  // More threads could be used, since quiet_since_.
  Instant quiet_since_;
  CpuTimes last_;
  double others_ = 0;
};

}  // namespace lares::llm
