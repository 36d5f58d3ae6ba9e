// One model loaded for embeddings: weights, a context of its own, and the texts being read in it.
//
// Owned by LlmEngine; one thread. A text is read in chunks like a prompt; the engine adds up the
// rows of its tokens and hands out one normalised vector when the last of them has been computed.
// How the rows are pooled is what the file says (mean, first or last token), else their mean.
//
// Models that attend in both directions need the whole text in one micro-batch: its chunks are
// collected, and computed with the last of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <llama-cpp.h>

#include "core/result.h"
#include "engine/engine.h"
#include "engine/llm/adapter.h"
#include "engine/llm/memory.h"
#include "engine/llm/threads.h"

namespace lares::llm {

class Embedder {
 public:
  // `weights` may be in use elsewhere. With `measuring_threads` above 0, steps are timed with so
  // many. LoadSpec::context is the longest text, batch_tokens the
  // micro-batch of models that can read in chunks. Errors: Unsupported, TooLarge, Corrupt.
  static Result<std::unique_ptr<Embedder>> load(const engine::LoadSpec& spec,
                                                std::shared_ptr<llama_model> weights,
                                                const ThreadPool& pool,
                                                std::uint32_t measuring_threads = 0);
  Embedder(const Embedder&) = delete;
  Embedder& operator=(const Embedder&) = delete;
  ~Embedder();

  [[nodiscard]] const engine::Loaded& loaded() const { return loaded_; }
  Result<> open(const engine::Open& open);
  // A run that fails advances no text.
  Result<engine::Ran> run(const engine::Run& run, std::uint32_t threads);
  void drop(SeqId seq);
  [[nodiscard]] engine::MemoryUse memory() const;

 private:
  enum class Pooling : std::uint8_t { Mean, First, Last };
  struct Text {
    bool open = false;
    std::vector<std::int32_t> tokens;
    std::uint32_t taken = 0;   // Tokens that runs have named; computed, unless collected.
    std::vector<double> rows;  // What the pooling keeps so far.
  };
  // Tokens [from, to) of a text, to be computed now.
  struct Part {
    SeqId seq;
    std::uint32_t from = 0, to = 0;
  };
  struct FreeBatch {
    void operator()(llama_batch* batch) const;
  };

  Embedder() = default;
  Result<> make_context(const engine::LoadSpec& spec);
  Result<> warm_up();
  void measure_steps(std::uint32_t threads);
  Result<std::vector<engine::ItemResult>> plan(const engine::Run& run);
  Result<> compute(std::span<const Part> parts);
  Result<> compute_batch(std::span<const Part> parts);
  void keep_rows(std::span<const Part> parts);
  void forget(std::span<const Part> parts);
  [[nodiscard]] std::vector<float> pooled(const Text& text) const;

  // Declared in the order in which they depend on each other: freed in the reverse one.
  std::shared_ptr<llama_model> model_;
  Adapter adapter_;
  llama_context_ptr context_;
  std::unique_ptr<llama_batch, FreeBatch> batch_;
  engine::Loaded loaded_;
  MemoryParts memory_;
  Pooling pooling_ = Pooling::Mean;
  bool whole_text_ = false;
  std::uint32_t batch_tokens_ = 0;
  std::uint32_t width_ = 0;
  std::uint32_t threads_ = 1;
  std::vector<Text> texts_;  // By SeqId.
  std::vector<Part> parts_;  // Of the run at hand.
};

}  // namespace lares::llm
