// The diffusion engine as a device worker drives it: engine.h's verbs for pictures over
// diffusion.h, one diffusion::Engine for each model. What it has no use for answers Unsupported.
//
// Handles are the server's here and the engine's there; this keeps which is which, and which of
// them are in the pass that runs.
//
// Thread rule: as engine.h says. `load` works outside the lock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/diffusion/diffusion.h"
#include "engine/engine.h"

namespace lares::diffusion {

struct PictureOptions {
  std::uint32_t threads = 1;
  std::string library_folder{};  // See LoadSpec.
  // How many to compute with now, at most `threads`: asked before every slice. Empty: all.
  std::function<std::uint32_t()> threads_now{};
  // No node of a graph takes longer, as far as can be foretold.
  Duration slice_max = std::chrono::milliseconds(50);
};

class PictureEngine final : public engine::Engine {
 public:
  explicit PictureEngine(PictureOptions options) : options_(std::move(options)) {}

  Result<engine::Loaded> load(const engine::LoadSpec& spec) override;
  Result<> unload(ModelId model) override;
  Result<> open(const engine::Open& open) override;
  Result<engine::Ran> run(const engine::Run& run) override;
  Result<engine::Saved> save(const engine::Save& save) override;
  Result<> restore(const engine::Restore& restore) override;
  void forget(ModelId /*model*/, StateId /*state*/) override {}
  void drop(ModelId /*model*/, SeqId /*seq*/) override {}
  Result<> lease(const engine::Lease& lease) override;
  Result<> release(std::uint64_t handle) override;
  [[nodiscard]] engine::MemoryReport memory() const override;
  Result<engine::Prepared> prepare(const engine::Prepare& prepare) override;
  Result<engine::Delivered> deliver(const engine::Deliver& deliver) override;
  void discard(ModelId model, engine::Handle handle) override;
  void set_threads(std::uint32_t threads) override;

 private:
  struct Resident {
    std::unique_ptr<diffusion::Engine> networks;
    std::map<engine::Handle, Handle> handles;
    std::vector<engine::Handle> pass;  // Of what runs; empty = nothing does.
  };
  Result<Resident*> find(ModelId model);

  const PictureOptions options_;
  mutable std::mutex mutex_;  // Guards the map, not the models.
  std::map<ModelId, Resident> models_;
};

// The picture in another size: means of what lies under each pixel, or straight lines between.
engine::Picture scaled(const engine::Picture& picture, engine::PictureSize size);

}  // namespace lares::diffusion
