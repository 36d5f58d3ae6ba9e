#include "worker/loader.h"

#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "core/log.h"

namespace lares::worker {
namespace {

// Loading stays behind the running steps, but goes on: at SCHED_IDLE it never ended on a machine
// that others kept busy. Threads that it starts inherit its priority, and an unprivileged process
// may not take it back: an engine starts the threads that compute steps in its first run, or in its
// constructor, never inside load().
constexpr int kNice = 10;

void stay_behind_steps() {
  if (::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice) != 0) {
    log_warn("models load at normal priority: setpriority was refused");
  }
}

}  // namespace

Loader::Loader(Channel& channel, engine::Engine& engine)
    : channel_(channel), engine_(engine), thread_([this] { work(); }) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::load(engine::LoadSpec spec) {
  const std::lock_guard lock(mutex_);
  loading_.insert(spec.model.value);
  waiting_.push_back(std::move(spec));
  changed_.notify_all();
}

bool Loader::loading(ModelId model) const {
  const std::lock_guard lock(mutex_);
  return loading_.contains(model.value);
}

void Loader::work() {
  stay_behind_steps();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const engine::LoadSpec spec = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Result<engine::Loaded> loaded = engine_.load(spec);
    lock.lock();
    loading_.erase(loading_.find(spec.model.value));
    lock.unlock();
    // A send that fails means that the server is gone; the reading thread sees the same and ends
    // us.
    if (loaded) {
      (void)channel_.send(LoadDone{std::move(*loaded)});
    } else {
      (void)channel_.send(LoadFailed{spec.model, std::move(loaded.error())});
    }
    lock.lock();
  }
}

}  // namespace lares::worker
