// The engine for text models, on llama.cpp.
//
// Thread rule: as Engine says. `load` works outside the lock on the map of models, so that models
// that are loaded keep running meanwhile; everything else is called by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/result.h"
#include "engine/engine.h"
#include "engine/llm/embedder.h"
#include "engine/llm/model.h"
#include "engine/llm/threads.h"

namespace lares::llm {

struct LlmOptions {
  // Most threads that a run computes with. 0: as many as there are cores we may run on.
  std::uint32_t threads = 0;
  // Whether fewer are used while other processes need the cores. Off only to measure.
  bool give_way = true;
  // Where libggml-cpu-*.so lie; "": beside libllama.
  std::string library_folder;
};

class LlmEngine : public engine::Engine {
 public:
  // Errors: Unavailable, when llama.cpp's backends cannot be loaded.
  static Result<std::unique_ptr<LlmEngine>> create(const LlmOptions& options);

  Result<engine::Loaded> load(const engine::LoadSpec& spec) override;
  Result<> unload(ModelId model) override;
  Result<> open(const engine::Open& open) override;
  Result<engine::Ran> run(const engine::Run& run) override;
  Result<engine::Saved> save(const engine::Save& save) override;
  Result<> restore(const engine::Restore& restore) override;
  void forget(ModelId model, StateId state) override;
  void drop(ModelId model, SeqId seq) override;
  Result<> lease(const engine::Lease& lease) override;
  Result<> release(std::uint64_t handle) override;
  [[nodiscard]] engine::MemoryReport memory() const override;

  // Most threads from now on; models that are loaded keep the pool they have, which bounds it.
  void set_threads(std::uint32_t most);

  // How many threads to compute with at this moment, beside what other processes do.
  std::uint32_t threads_now();

  // Where the time of the model's last run went; zeros for an unknown model.
  [[nodiscard]] RunTimes last_times(ModelId model) const;
  [[nodiscard]] const ThreadGovernor& governor() const { return governor_; }

 private:
  LlmEngine(const LlmOptions& options, std::uint32_t threads, ThreadPool pool);
  // A loaded model is for text or for embeddings; the pointer of the other kind is null.
  struct Resident {
    std::unique_ptr<Model> text;
    std::unique_ptr<Embedder> embedder;
    [[nodiscard]] bool ready() const { return text != nullptr || embedder != nullptr; }
  };
  Result<const Resident*> resident(ModelId model) const;
  Result<Model*> find(ModelId model) const;  // For text.
  Result<std::shared_ptr<llama_model>> weights(const engine::LoadSpec& spec);
  Result<Resident> make(const engine::LoadSpec& spec, std::uint32_t measuring_threads);

  LlmOptions options_;
  ThreadPool pool_;  // For the runs of every model; one runs at a time.
  std::uint32_t pool_threads_;
  ThreadGovernor governor_;
  mutable std::mutex mutex_;  // Guards the map, not the models.
  std::map<ModelId, Resident> models_;
  // By file: text and embeddings of one model share its weights. The loading thread's alone.
  std::map<std::string, std::weak_ptr<llama_model>> weights_;
};

}  // namespace lares::llm
