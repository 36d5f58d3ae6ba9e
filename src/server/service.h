// What the routes may ask of the core: the one interface between HTTP and the loop.
//
// Every call returns at once, from any thread, whatever the device does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "server/generation.h"
#include "server/queue.h"
#include "sketch/catalogue.h"

namespace lares::server {

struct ModelEntry;  // server/loop.h

struct ModelStatus {
  std::string name;
  std::string state;  // "probing", "available", "loading", "ready", "failed"
  std::string error;  // Why it failed, with what to do.
  std::uint32_t context = 0;
  std::uint64_t created = 0;             // Unix seconds: the file's time.
  std::uint64_t loads = 0, unloads = 0;  // Since the server's start.
  Bytes memory{};                        // What holding it takes, a guess until it was loaded.
  std::string why{};                     // It is held, or is not: a sentence for people.
  std::optional<Duration> load{};        // How long loading took the last time.
  engine::ModelInfo info;
  std::vector<std::string> alias_of{};  // The models that the name stands for; empty: it is one.
};

// What the device's memory holds, in bytes. What the parts leave of `total` others use.
struct MemoryStatus {
  struct Part {
    std::string name;     // The model's.
    bool embeds = false;  // Its context for embeddings.
    Bytes weights, kv, compute;
    Bytes cache;  // Of the pool: ended sequences kept for reuse; `kv` is the rest.
  };
  std::string device;
  Bytes total, budget, free;  // budget: for models.
  Bytes host_budget;          // For sequences that leave the pools.
  Bytes host_saved;           // What of it they take.
  std::vector<Part> models;
};

// {"object":"memory","devices":[{"name":...,"total":...,"weights":...,...}],...}
std::string memory_json(const MemoryStatus& status);
// {"object":"loads","loads":{"m":2},"unloads":{"m":1}}
std::string loads_json(const std::vector<ModelStatus>& models);

// A snapshot for /readyz, /metrics and people, at most a moment old.
struct ServiceStatus {
  bool ready = false;  // The default model can be used.
  std::string reason;  // Why not ready.
  std::uint32_t waiting = 0;
  std::uint32_t running = 0;
  std::uint32_t requests = 0;  // Taken on and not ended, wherever they are.
  std::uint64_t device_restarts = 0;
  std::uint64_t text_restarts = 0;
  std::int64_t device_pid = 0;
  std::int64_t text_pid = 0;
};

struct CatalogueNow {
  sketch::Catalogue catalogue;
  bool complete = true;  // False while files are still being read.
};

class Service {
 public:
  virtual ~Service() = default;

  // Takes the generation on and returns its id; everything else, refusals included, comes through
  // the sink. The id is what X-Request-Id and DELETE name.
  virtual JobId submit(Generation generation, std::shared_ptr<GenerationSink> sink) = 0;
  // Ends it at the next step; unknown or ended ids are ignored. Returns whether it was known.
  virtual bool cancel(JobId job) = 0;
  // Ends what waits and runs, with the code `server_stopping`; what is submitted later ends so at
  // once. Returns when every sink has had its Ended. Once; the other calls stay harmless.
  virtual void stop() {}
  // What to serve from now on. Entries that are not among them any more are found by nobody, and
  // leave the device once their last request has ended; entries that stay are not touched.
  virtual void set_models(const std::vector<ModelEntry>& /*models*/) {}
  // Who waits and runs; handed over on the core's thread, soon.
  virtual void queue(std::function<void(std::vector<QueueEntry>)> done) { done({}); }
  // What the device's memory holds; handed over on the core's thread, soon.
  virtual void memory(std::function<void(MemoryStatus)> done) { done({}); }
  // What a planner must know: models, measured prices, what is cached. Whose keys are looked up is
  // for the caller to add.
  [[nodiscard]] virtual CatalogueNow catalogue() const { return {}; }
  [[nodiscard]] virtual std::vector<ModelStatus> models() const = 0;
  [[nodiscard]] virtual ServiceStatus status() const = 0;
};

}  // namespace lares::server
