// Two engines as one, for a device that makes texts and pictures: each model belongs to the engine
// that LoadSpec::pictures chose, and every later verb goes there.
//
// Thread rule: as engine.h says; the map of models is guarded, for `load` runs beside the rest.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "engine/engine.h"

namespace lares::engine {

class JoinedEngine final : public Engine {
 public:
  JoinedEngine(std::unique_ptr<Engine> text, std::unique_ptr<Engine> pictures);

  Result<Loaded> load(const LoadSpec& spec) override;
  Result<> unload(ModelId model) override;
  Result<> open(const Open& open) override;
  Result<Ran> run(const Run& run) override;
  Result<Saved> save(const Save& save) override;
  Result<> restore(const Restore& restore) override;
  void forget(ModelId model, StateId state) override;
  void drop(ModelId model, SeqId seq) override;
  Result<> lease(const Lease& lease) override;
  Result<> release(std::uint64_t handle) override;
  [[nodiscard]] MemoryReport memory() const override;
  Result<Prepared> prepare(const Prepare& prepare) override;
  Result<Delivered> deliver(const Deliver& deliver) override;
  void discard(ModelId model, Handle handle) override;
  void set_threads(std::uint32_t threads) override;

 private:
  Engine& of(ModelId model);

  std::unique_ptr<Engine> text_, pictures_;
  std::mutex mutex_;
  std::map<ModelId, Engine*> models_;  // Of pictures; all others are of text.
};

}  // namespace lares::engine
