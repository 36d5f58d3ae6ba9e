// Loads models one after the other on a thread of its own at low priority, beside running steps.
//
// Owned by the device worker's main thread; answers go to the channel from the loading thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "engine/engine.h"
#include "worker/channel.h"

namespace lares::worker {

class Loader {
 public:
  Loader(Channel& channel, engine::Engine& engine);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();  // Waits for the load that is running; drops those that wait.

  // Answered by LoadDone or LoadFailed.
  void load(engine::LoadSpec spec);

  // True from load() until just before the answer is sent: the engine must not be asked about it.
  [[nodiscard]] bool loading(ModelId model) const;

 private:
  void work();

  Channel& channel_;
  engine::Engine& engine_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<engine::LoadSpec> waiting_;
  std::multiset<std::uint32_t> loading_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lares::worker
