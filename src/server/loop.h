// The core of the server: one thread that owns the scheduler and drives workers by its decisions.
//
// Everything else talks to it by queue (Service), and it talks back through sinks; it never waits
// for compute, a socket of a client, or the disk. A worker that dies or hangs is started anew, and
// what ran in it goes on: the loop keeps every sequence's tokens.
//
//   submit -> model known? -> text worker: tokens -> scheduler -> device worker: runs -> text ->
//   sink
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "sched/scheduler.h"
#include "server/metrics.h"
#include "server/service.h"
#include "server/timeline.h"
#include "store/usage.h"
#include "worker/supervisor.h"

namespace lares::server {

struct ModelEntry {
  std::string name;
  std::string path;
  std::uint32_t context = 0;      // Most tokens of one sequence; 0 = as trained.
  std::uint32_t pool_tokens = 0;  // Cells of its KV pool; 0 = chosen at load.
  std::string adapter{};          // A LoRA adapter for the file: "" = none.
  double adapter_scale = 1;
  std::uint64_t stamp = 0;          // Another one for another file of the same name.
  bool pinned = false;              // Loaded at the start, and never taken off.
  Duration keep = Duration::max();  // Taken off when unused for so long; max = only for room.

  bool pictures = false;  // A folder in the layout of diffusers.

  bool operator==(const ModelEntry&) const = default;
};

// A name that stands for any of several models, the best first.
struct ModelAlias {
  std::string name;
  std::vector<std::string> models;
};

struct LoopOptions {
  sched::Options scheduler;
  std::vector<ModelEntry> models;
  std::vector<ModelAlias> aliases;
  std::vector<std::string> better_classes;     // Take an alias's best model, be it loaded or not.
  std::string default_model;                   // "" = the first that can generate.
  std::vector<std::string> classes;            // Names a request may claim.
  std::uint32_t output_tokens = 2048;          // Most tokens for a request that names no limit.
  std::uint64_t prompt_bytes_max = 8U << 20U;  // Of text handed to the text worker.
  Duration text_limit = std::chrono::seconds(10);  // For one request of the text worker.
  // What is known of how long steps take, by cost_key(); and where to keep what is learnt, called
  // on the loop thread, which must not block.
  std::map<std::string, std::string> costs;
  std::function<void(std::string key, std::string table)> save_cost;
  // Of the last 24 hours, for members' daily limits.
  std::vector<store::PastUse> past_use;
  std::vector<std::string> shared_prompts;  // Words that the whole household begins prompts with.
  Bytes host_memory{};              // For what leaves the device's memory and may come back.
  Bytes device_memory{};            // For models; 0 = nine tenths of what is free at the start.
  Bytes picture_cache{256 << 20};   // For conditioning and latents kept for the next time.
  std::string device_name = "cpu";  // Part of the key: the processor and its threads.
  std::string event_log;            // File to write the scheduler's event log to; "" = none.
  std::uint64_t seed = 0;           // Where seeds of requests without one come from.
  std::shared_ptr<Timeline> timeline{};  // What the device did of late goes there; may be null.
  // Where the device's time has gone; on the loop's thread, after what was just handed out.
  std::function<void(const std::function<store::DeviceTotals()>&)> keep_totals{};
};

using UsageSink = std::function<void(store::UsageRow)>;

// Starts the thread. Errors: Invalid (options), Io (a worker cannot be started, the event log
// cannot be written). `usage` is called on the loop thread once a request and must not block.
Result<std::unique_ptr<Service>> start_loop(LoopOptions options,
                                            std::shared_ptr<worker::WorkerFactory> workers,
                                            UsageSink usage, Metrics& metrics);

}  // namespace lares::server
