#include "engine/joined_engine.h"

#include <utility>

namespace lares::engine {

JoinedEngine::JoinedEngine(std::unique_ptr<Engine> text, std::unique_ptr<Engine> pictures)
    : text_(std::move(text)), pictures_(std::move(pictures)) {}

Engine& JoinedEngine::of(ModelId model) {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(model);
  return found == models_.end() ? *text_ : *found->second;
}

Result<Loaded> JoinedEngine::load(const LoadSpec& spec) {
  if (!spec.pictures) return text_->load(spec);
  Loaded loaded = TRY(pictures_->load(spec));
  const std::lock_guard lock(mutex_);
  models_[spec.model] = pictures_.get();
  return loaded;
}

Result<> JoinedEngine::unload(ModelId model) {
  Engine& engine = of(model);
  {
    const std::lock_guard lock(mutex_);
    models_.erase(model);
  }
  return engine.unload(model);
}

Result<> JoinedEngine::open(const Open& open) {
  return of(open.model).open(open);
}

Result<Ran> JoinedEngine::run(const Run& run) {
  return of(run.model).run(run);
}

Result<Saved> JoinedEngine::save(const Save& save) {
  return of(save.model).save(save);
}

Result<> JoinedEngine::restore(const Restore& restore) {
  return of(restore.model).restore(restore);
}

void JoinedEngine::forget(ModelId model, StateId state) {
  of(model).forget(model, state);
}

void JoinedEngine::drop(ModelId model, SeqId seq) {
  of(model).drop(model, seq);
}

Result<> JoinedEngine::lease(const Lease& lease) {
  return text_->lease(lease);
}

Result<> JoinedEngine::release(std::uint64_t handle) {
  return text_->release(handle);
}

MemoryReport JoinedEngine::memory() const {
  MemoryReport report = text_->memory();
  for (const MemoryUse& use : pictures_->memory().models) report.models.push_back(use);
  return report;
}

Result<Prepared> JoinedEngine::prepare(const Prepare& prepare) {
  return of(prepare.model).prepare(prepare);
}

Result<Delivered> JoinedEngine::deliver(const Deliver& deliver) {
  return of(deliver.model).deliver(deliver);
}

void JoinedEngine::discard(ModelId model, Handle handle) {
  of(model).discard(model, handle);
}

void JoinedEngine::set_threads(std::uint32_t threads) {
  text_->set_threads(threads);
  pictures_->set_threads(threads);
}

}  // namespace lares::engine
