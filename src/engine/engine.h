// What a device worker can be asked to do, as plain values, and the interface every engine speaks.
//
// These values travel between the server and the worker (worker/message.h encodes them), so they
// hold no pointers and no native handles. Engines: sim (a cost table instead of a device), llm
// (llama.cpp), diffusion, later speech. A verb an engine lacks answers Code::Unsupported.
//
// Sequences. A sequence is the state of one generation: the engine keeps its tokens and how many of
// them are in the KV cache ("computed"). `open` sets the tokens; a run item advances a sequence by
// n tokens; when the last known token has been computed, the engine samples the next one and
// appends it, so that "the token just sampled" is a legal input of the run queued behind. Sampling
// needs no state beyond the tokens: the noise is a function of (seed, choice, position, token), so
// a sequence opened again with the tokens made so far goes on with the same text.
//
// Parts of sequences can be kept in the host's memory: engine/state.h.
//
// Thread rule: one thread calls an engine, but `load` may run on another thread beside the rest; a
// model that is being loaded is not named by any other call until load has returned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/constraint.h"
#include "core/result.h"
#include "core/types.h"
#include "engine/picture.h"
#include "engine/state.h"

namespace lares::engine {

// What a model's memory and graph allow: data for the scheduler, filled in by the engine.
struct Capabilities {
  bool cut_anywhere = true;     // KV may be cut and shared at any position (not recurrent or SWA).
  bool sliding_window = false;  // Attends only to the last `window` tokens in some layers.
  bool recurrent = false;       // Keeps a running state instead of, or beside, a KV cache.
  bool whole_text = false;      // Needs a whole text in one micro-batch (encoder-only models).
  bool generates = true;        // Can produce text.
  bool embeds = false;          // Has a pooling type meant for embeddings.
  bool has_chat_template = false;  // The file carries a chat template.
  bool pictures = false;           // Makes pictures, and nothing else.
  std::uint32_t window = 0;        // Tokens; 0 when sliding_window is false.
  Duration longest_node{};         // Longest part of a step that cannot be cut; 0 = not measured.
};

// What a model file says about itself, read without allocating its weights.
struct ModelInfo {
  std::string architecture;  // "qwen3"
  std::string description;   // "qwen3 ?B Q8_0"
  std::uint64_t parameters = 0;
  Bytes weights;                 // All tensors.
  Bytes kv_per_token;            // Of the unified pool, F16.
  std::uint32_t context = 0;     // Tokens the model was trained for.
  std::uint32_t vocabulary = 0;  // Tokens.
  std::uint32_t embedding = 0;   // Width.
  Capabilities can;
  PictureFacts picture{};  // If can.pictures.
};

// How to load one model.
struct LoadSpec {
  ModelId model;
  std::string path;       // First file of the model.
  std::string adapter{};  // A LoRA adapter for it, or "".
  double adapter_scale = 1;
  std::uint32_t context = 0;       // Most tokens of one sequence; 0 = as trained.
  std::uint32_t pool_tokens = 0;   // Cells of the KV pool; 0 = chosen from what memory is left.
  std::uint32_t sequences = 0;     // Sequences open at once. 1..255.
  std::uint32_t outputs = 0;       // Most items of one run that sample.
  std::uint32_t batch_tokens = 0;  // Most tokens of one run.
  // Find out how long steps take, for a second or two; not done beside models that may be running.
  bool measure_steps = false;
  bool embeds = false;    // For embeddings: nothing is sampled, see ItemState::Embedded.
  bool pictures = false;  // `path` is a folder in the layout of diffusers.
};

// How long a step took: decodes, each at `position`, and a chunk of a prompt from `from` on.
struct StepTime {
  std::uint32_t decodes = 0, position = 0;
  std::uint32_t prompt = 0, from = 0;
  Duration time{};
};

// What loading came to.
struct Loaded {
  ModelId model;
  ModelInfo info;
  std::uint32_t context = 0;      // Most tokens of one sequence, as loaded.
  std::uint32_t pool_tokens = 0;  // Cells, as loaded.
  std::uint32_t sequences = 0;
  Bytes weights, kv, compute;  // Device memory now held.
  Duration took{};
  std::vector<StepTime> step_times{};  // If LoadSpec::measure_steps: see sched::CostTable::fit().
};

// How the next token is chosen. Defaults and order of stages: engine/llm/sampler.h.
struct Sampling {
  float temperature = 0.8F;           // 0 = the best token.
  std::uint32_t top_k = 40;           // 0 = off.
  float top_p = 0.95F;                // 1 = off.
  float min_p = 0.05F;                // 0 = off.
  float presence_penalty = 0.0F;      // As OpenAI: subtracted once from tokens made so far.
  float frequency_penalty = 0.0F;     // As OpenAI: subtracted per occurrence.
  float repeat_penalty = 1.0F;        // As llama.cpp: divides (or multiplies) the logit. 1 = off.
  std::uint32_t penalty_window = 64;  // Last tokens that repeat_penalty looks at.
  std::uint64_t seed = 0;     // Always set by the server: random unless the client chose one.
  std::uint32_t choice = 0;   // Index among a request's n choices.
  bool ignore_eos = false;    // Never choose an end-of-generation token.
  std::uint8_t logprobs = 0;  // Alternatives to report, 0..20; see want_logprob.
  bool want_logprob = false;  // Report the chosen token's log-probability.
  std::vector<std::pair<std::int32_t, float>> logit_bias;
};

// Begins a sequence, or begins it again after its state was lost.
struct Open {
  ModelId model;
  SeqId seq;
  std::vector<std::int32_t> tokens;  // Prompt, then whatever was generated before.
  std::uint32_t prompt_tokens = 0;   // How many of them are the prompt; penalties see the rest.
  std::optional<SeqId> from{};       // Take the first `from_tokens` of that sequence's KV.
  std::uint32_t from_tokens = 0;     // < tokens.size().
  Sampling sampling;
  Constraint constraint{};  // What the output must follow; replayed over the output among `tokens`.
};

struct RunItem {
  SeqId seq;
  std::uint32_t tokens = 0;  // Advance by this many; 1 may be the token just sampled.
};

// One step. Of an image model: `pass`, whose pass begins or goes on until a node ends after
// `slice`.
struct Run {
  RunId run;
  ModelId model;
  std::vector<RunItem> items{};
  Duration slice{};
  std::vector<Handle> pass{};
};

struct TopToken {
  std::int32_t token = 0;
  float logprob = 0;
};

enum class ItemState : std::uint8_t {
  Advanced,  // Computed; more of the prompt is left.
  Sampled,   // Computed and sampled.
  Ended,     // Sampled an end-of-generation token: later items of the sequence are skipped.
  Skipped,   // Nothing done: the sequence had ended, was cancelled or is not open.
  Embedded,  // The whole text is computed, of a model loaded for embeddings.
};

struct ItemResult {
  SeqId seq;
  ItemState state = ItemState::Advanced;
  std::uint32_t tokens = 0;      // Tokens computed for it in this run.
  std::int32_t token = -1;       // Sampled token, if state is Sampled or Ended.
  float logprob = 0;             // Of the sampled token, before truncation (temperature 1).
  float best[2] = {0, 0};        // The two best logits after penalties: near ties are visible.
  std::vector<TopToken> top;     // As many as Sampling::logprobs asked for.
  std::vector<float> embedding;  // Of length 1, if state is Embedded.
};

// Result of a run: one ItemResult for each item, in the same order.
struct Ran {
  RunId run;
  ModelId model;
  std::vector<ItemResult> items{};
  Duration device{};              // Whole step: building, computing, sampling.
  Duration sampling{};            // Part of `device`.
  Bytes copied{};                 // Between device and host.
  std::uint32_t span_tokens = 0;  // Highest used cell of the pool.
  std::uint32_t threads = 0;      // That ran it.
  // Since the run before ended, if this one was waiting already: what a step costs beside the
  // engine. Filled in by the worker's loop.
  Duration idle{};
  // Of an image model: whether the pass is over, what came of it, and the longest part of this
  // slice that could not be interrupted.
  bool pass_done = false;
  std::vector<PassStep> stepped{};
  Duration longest{};
};

// Result of a run that could not be done at all; no sequence advanced.
struct RunFailed {
  RunId run;
  ModelId model;
  Error error;
};

struct MemoryUse {
  ModelId model;
  Bytes weights, kv, compute;
  std::uint32_t pool_tokens = 0;
  std::uint32_t used_tokens = 0;  // Sum over open sequences; shared cells counted for each.
  std::uint32_t sequences_open = 0;
};

struct MemoryReport {
  Bytes device_total, device_free;
  Bytes host_saved;  // States, in the host's memory.
  std::vector<MemoryUse> models;
};

// A tensor kept beside the device under a name, for as long as somebody needs it (pictures).
struct Lease {
  std::uint64_t handle = 0;
  Bytes bytes;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Blocks for as long as loading takes. Errors: NotFound, Corrupt, TooLarge, Unsupported.
  virtual Result<Loaded> load(const LoadSpec& spec) = 0;
  // Drops every sequence of the model. Errors: NotFound.
  virtual Result<> unload(ModelId model) = 0;
  // Errors: NotFound (model, source), Invalid (token out of range, too long), Conflict (seq open).
  virtual Result<> open(const Open& open) = 0;
  // Errors: as RunFailed says; nothing advanced.
  virtual Result<Ran> run(const Run& run) = 0;
  // Errors: NotFound (model, sequence), Invalid (not computed so far), Conflict (state in use),
  // Unsupported (memory that cannot be cut there), TooLarge (no memory on the host).
  virtual Result<Saved> save(const Save& save) = 0;
  // Errors: NotFound (model, sequence, state), Invalid (not what the state holds), Unsupported,
  // Busy (no room). The sequence is then as it was.
  virtual Result<> restore(const Restore& restore) = 0;
  // Frees the state. Unknown ones are ignored: it may cross a crash.
  virtual void forget(ModelId model, StateId state) = 0;
  // Frees the sequence. Unknown ones are ignored.
  virtual void drop(ModelId model, SeqId seq) = 0;
  virtual Result<> lease(const Lease& lease) = 0;
  virtual Result<> release(std::uint64_t handle) = 0;
  virtual MemoryReport memory() const = 0;

  // Pictures; an engine for text answers Unsupported.
  // Errors: NotFound (model, handle), Invalid, TooLarge (with the limit), Conflict (a handle of
  // another kind, unfinished, or in use).
  virtual Result<Prepared> prepare(const Prepare& prepare);
  virtual Result<Delivered> deliver(const Deliver& deliver);
  // Unknown ones are ignored. Of a pass: it goes on without it.
  virtual void discard(ModelId /*model*/, Handle /*handle*/) {}

  // Most threads a run may use from the next one on; without threads of its own, ignored.
  virtual void set_threads(std::uint32_t /*threads*/) {}
};

}  // namespace lares::engine
