// Which models a server serves: those of the configuration and those of its folder, and how it
// notices that the folder has changed.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "app/config.h"
#include "core/result.h"
#include "server/loop.h"

namespace lares::app {

// The configured models first, then what the folder holds and the configuration does not name.
// Errors: NotFound (none at all, or not the default one; says what to do), Io.
Result<std::vector<server::ModelEntry>> served_models(const Config& config);

// What to serve after a look at the folder that found `now`, with `before` found by the look before
// it and `served` so far: a file that is new or has changed only once it has stayed the same for
// two looks, for it may still be being copied.
std::vector<server::ModelEntry> settled_models(const std::vector<server::ModelEntry>& served,
                                               const std::vector<server::ModelEntry>& before,
                                               const std::vector<server::ModelEntry>& now);

// Looks every `period`, on a thread of its own, and calls `changed` there when other models are to
// be served. A folder that cannot be read changes nothing.
class ModelWatch {
 public:
  using Find = std::function<Result<std::vector<server::ModelEntry>>()>;
  using Changed = std::function<void(const std::vector<server::ModelEntry>&)>;
  ModelWatch(Find find, std::vector<server::ModelEntry> served, Duration period, Changed changed);
  ~ModelWatch() = default;  // Waits for the look that is being taken.
  ModelWatch(const ModelWatch&) = delete;
  ModelWatch& operator=(const ModelWatch&) = delete;

 private:
  void run(const std::stop_token& stop);
  void look();

  const Find find_;
  std::vector<server::ModelEntry> served_, before_;
  const Duration period_;
  const Changed changed_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // Last: it uses what is above.
};

}  // namespace lares::app
