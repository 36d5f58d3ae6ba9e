// One loaded model: weights, context, KV pool, and the sequences in it.
//
// Owned by LlmEngine; one thread. All of a model's sequences share one pool and one batch: a run is
// a single call of llama_decode.
//
// Invariants:
//   1. Between calls the cache holds exactly the first `computed` tokens of every open sequence
//   that
//      is not saved, and nothing else.
//   2. A run that fails advances no sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <llama-cpp.h>

#include "core/result.h"
#include "engine/engine.h"
#include "engine/llm/adapter.h"
#include "engine/llm/cells.h"
#include "engine/llm/memory.h"
#include "engine/llm/sampler.h"
#include "engine/llm/sequence.h"
#include "engine/llm/threads.h"

namespace lares::llm {

// Where the time of one run went, for the benchmark.
struct RunTimes {
  Duration build{}, decode{}, sample{};
};

class Model {
 public:
  // Makes the context and computes one token, so that the first request does not pay for page
  // faults. `weights` may be in use elsewhere. Runs compute on `pool`, which outlives the model.
  // With `measuring_threads` above 0, steps are timed with so many. Errors as Engine::load.
  static Result<std::unique_ptr<Model>> load(const engine::LoadSpec& spec,
                                             std::shared_ptr<llama_model> weights,
                                             const ThreadPool& pool,
                                             std::uint32_t measuring_threads = 0);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  [[nodiscard]] const engine::Loaded& loaded() const { return loaded_; }
  Result<> open(const engine::Open& open);
  Result<engine::Ran> run(const engine::Run& run, std::uint32_t threads);
  Result<engine::Saved> save(const engine::Save& save);
  Result<> restore(const engine::Restore& restore);
  void forget(StateId state) { states_.erase(state); }
  void drop(SeqId seq);
  [[nodiscard]] engine::MemoryUse memory() const;
  [[nodiscard]] Bytes host_saved() const;
  [[nodiscard]] const RunTimes& last_times() const { return times_; }

 private:
  // What one item of a run comes to.
  struct Part {
    std::uint32_t tokens = 0;  // 0: skipped.
    std::int32_t row = -1;     // Batch index of the token whose row is sampled.
  };
  // What the cache held for the tokens from `from` on.
  struct State {
    std::vector<std::int32_t> tokens;  // All up to the end of it.
    std::uint32_t from = 0;
    std::vector<std::uint8_t> bytes;  // As the library writes it.
  };
  struct FreeBatch {
    void operator()(llama_batch* batch) const;
  };

  Model() = default;
  Result<> make_context(const engine::LoadSpec& spec);
  Result<> warm_up();
  // model_measure.cc
  void measure_steps(std::uint32_t threads);
  bool measure(engine::StepTime step);
  void fill_measured(const engine::StepTime& step);
  Result<> check_open(const engine::Open& open) const;
  Result<> plan(const engine::Run& run);
  void fill_batch(const engine::Run& run);
  void add_tokens(const engine::RunItem& item, Part& part);
  Result<> decode(const engine::Run& run);
  Result<> undo(const engine::Run& run, int status);
  void sample(const engine::Run& run, engine::Ran& ran);
  void sample_row(std::int32_t row, Sequence& sequence, engine::ItemResult& result);
  Sequence* find(SeqId seq);
  [[nodiscard]] SeqId scratch() const { return SeqId{loaded_.sequences}; }

  // Declared in the order in which they depend on each other: freed in the reverse one.
  std::shared_ptr<llama_model> model_;
  Adapter adapter_;
  llama_context_ptr context_;
  std::unique_ptr<llama_batch, FreeBatch> batch_;
  engine::Loaded loaded_;
  MemoryParts memory_;
  std::uint32_t batch_tokens_ = 0;
  std::uint32_t outputs_ = 0;
  std::uint32_t threads_ = 0;  // Last told to the context.
  std::vector<std::int32_t> end_tokens_;
  std::unique_ptr<TokenIndex> tokens_;  // Once a grammar needs it.
  std::vector<Sequence> sequences_;     // By SeqId.
  std::unordered_map<StateId, State> states_;
  Cells cells_;
  Sampler sampler_;
  std::vector<Part> parts_;   // By item of the run at hand.
  std::vector<bool> in_run_;  // By SeqId: named by the run at hand.
  bool lost_ = false;         // The cache could not be brought back to invariant 1.
  RunTimes times_;
};

}  // namespace lares::llm
