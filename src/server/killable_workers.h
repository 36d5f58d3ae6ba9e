// Workers for tests, which a test can kill while the loop uses them.
//
// Tests only.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "worker/supervisor.h"

namespace lares::server {

class KillableWorkers final : public worker::WorkerFactory {
 public:
  explicit KillableWorkers(std::unique_ptr<worker::WorkerFactory> inner)
      : inner_(std::move(inner)) {}

  Result<std::unique_ptr<worker::Worker>> start(worker::Kind kind) override {
    auto worker = TRY(inner_->start(kind));
    auto wrapped = std::make_unique<Wrapped>(*this, kind, std::move(worker));
    const std::lock_guard lock(mutex_);
    alive_[kind] = wrapped->inner.get();
    ++starts[kind];
    return wrapped;
  }
  Result<engine::ModelInfo> probe(const std::string& path) override { return inner_->probe(path); }

  void kill(worker::Kind kind) {
    const std::lock_guard lock(mutex_);
    if (alive_[kind] != nullptr) alive_[kind]->kill();
  }

  // As the system does when memory runs out.
  void kill_for_memory(worker::Kind kind) {
    ++memory_kills_;
    kill(kind);
  }
  std::uint64_t memory_kills() override { return memory_kills_; }

  std::map<worker::Kind, int> starts;

 private:
  struct Wrapped final : worker::Worker {
    Wrapped(KillableWorkers& o, worker::Kind k, std::unique_ptr<worker::Worker> i)
        : owner(o), kind(k), inner(std::move(i)) {}
    ~Wrapped() override {
      const std::lock_guard lock(owner.mutex_);
      if (owner.alive_[kind] == inner.get()) owner.alive_[kind] = nullptr;
    }
    worker::Channel& channel() override { return inner->channel(); }
    [[nodiscard]] pid_t pid() const override { return inner->pid(); }
    void kill() override { inner->kill(); }

    KillableWorkers& owner;
    worker::Kind kind;
    std::unique_ptr<worker::Worker> inner;
  };

  std::unique_ptr<worker::WorkerFactory> inner_;
  std::mutex mutex_;
  std::map<worker::Kind, worker::Worker*> alive_;
  std::atomic<std::uint64_t> memory_kills_ = 0;
};

}  // namespace lares::server
