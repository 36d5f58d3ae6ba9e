// What the scheduler is told and what it answers: plain values.
//
// Spans in events are read during step() only. Everything a decision holds is in the caller's
// buffer.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "core/types.h"
#include "sched/accounts.h"
#include "sched/cost_table.h"

namespace lares::sched {

// What a resident model allows, in the units the scheduler works in.
struct ModelLimits {
  std::uint32_t pool_tokens = 0;   // Cells of its KV pool.
  std::uint32_t context = 0;       // Most tokens of one sequence.
  std::uint32_t sequences = 0;     // Sequence ids, cached prefixes included; at least 1.
  std::uint32_t batch_tokens = 0;  // Most tokens of one step.
  bool cut_anywhere = true;        // A prefix of a sequence can be shared.
  Bytes kv_per_token{};            // What a token takes in the pool, and on the host; 0: nothing of
                                   // it can be saved.
  // Its jobs are graphs: `prompt` counts passes, done in slices; there is no pool, and of the above
  // only `sequences` (jobs begun at once) and `batch_tokens` (jobs in one pass) mean anything.
  bool graphs = false;
};

// What one item of a step came to.
struct ItemDone {
  JobId job;
  std::uint32_t tokens = 0;  // Computed; less than planned if the item was skipped. Of a graph: 1
                             // if a pass of it is over.
  bool sampled = false;      // One more token of output exists.
};

enum class EndCause : std::uint8_t { Finished, Cancelled, Failed };

// clang-format off
// Events, in the order they happened.
struct ModelReady { ModelId model; DeviceId device; ModelLimits limits; CostTable cost{}; };
struct ModelFailed { ModelId model; };   // Not loadable: its jobs are rejected, later ones too.
struct ModelForgotten { ModelId model; };  // Not resident any more; the next job loads it again.
// What holding a model takes, as far as is known; without it, nothing. Told again on change.
struct ModelNeed {
  ModelId model; DeviceId device;
  Bytes bytes;                      // Pool, buffers, and weights that are its own.
  Bytes shared{};                   // Weights that are there once for all models of a file:
  ModelId file{};                   // the first of those. No matter if 0.
  Duration reload{};                // How long loading takes.
  Duration keep = Duration::max();  // Leaves when unused for so long; max = only for room.
  bool pinned = false;              // Never taken off.
  bool wanted = false;              // To be loaded though no job waits, if there is room.
};
struct DeviceMemory { DeviceId device; Bytes budget; };  // For models; 0 = no limit.
struct HostMemory { DeviceId device; Bytes budget; };  // For states; 0 = none are kept.
struct StateSaved { DeviceId device; StateId state; Bytes bytes; Duration took; };
struct StateLost { DeviceId device; StateId state; };  // It could not be saved.
struct RestoreFailed { JobId job; };  // It is computed from its tokens.
struct DeviceLost { DeviceId device; };  // Its worker died: nothing is resident, nothing computed.
struct MemberChanged { MemberId member; MemberLimits limits; };  // Without it, the defaults.
struct Submitted {
  JobId job; MemberId member; ClassId cls; TaskId task; ModelId model;
  std::uint32_t prompt = 0;              // Tokens.
  std::uint32_t output_max = 0;          // Tokens; prompt + output_max <= context. 0: an embedding,
                                         // done when its prompt is computed.
  std::span<const std::uint64_t> blocks; // Prefix keys of the prompt, see prefix_keys().
  std::uint64_t batch_key = 0;           // Graphs with equal keys share passes; 0 = with nobody.
};
struct Ended {
  JobId job; EndCause cause = EndCause::Finished;
  std::span<const std::uint64_t> blocks; // Prefix keys of prompt and output, for reuse.
};
struct Stepped {
  DeviceId device; RunId run; Duration took; std::span<const ItemDone> items;
  bool pass_done = true;                 // Of graphs: the pass that ran is over.
};
using Event = std::variant<ModelReady, ModelFailed, ModelForgotten, ModelNeed, DeviceMemory,
                           HostMemory, StateSaved, StateLost, RestoreFailed, DeviceLost,
                           MemberChanged, Submitted, Ended, Stepped>;

// Actions, to be performed in this order.
enum class Reason : std::uint8_t {
  QueueFull, ModelFailed, NeverFits, FailedRepeatedly, MemberQueueFull
};
struct LoadModel { DeviceId device; ModelId model; };  // Answered by ModelReady or ModelFailed.
// Its sequences are forgotten, and no run of it is unanswered.
struct UnloadModel { DeviceId device; ModelId model; };
struct OpenSequence {                   // The job's tokens so far, prompt and output.
  DeviceId device; ModelId model; JobId job; SeqId seq;
  SeqId from; std::uint32_t from_tokens = 0;  // Take that many from there; 0 = none.
};
// Gives the sequence, which has just been opened, what the state holds up to the position `end`.
struct RestoreState {                   // Answered by RestoreFailed, if it fails.
  DeviceId device; ModelId model; JobId job; SeqId seq; StateId state; std::uint32_t end = 0;
  bool own = false;                     // The job itself had computed it, before it stepped back.
};
struct RunStep {                        // Answered by Stepped.
  DeviceId device; ModelId model; RunId run;
  std::uint32_t first = 0, count = 0;   // Of Decision::items.
  Duration slice{};                     // Of graphs: stop after so long and go on in a later run.
};
// Copies [from, from + tokens) of the sequence to the host. Answered by StateSaved or StateLost.
struct SaveState {
  DeviceId device; ModelId model; SeqId seq; StateId state; std::uint32_t from = 0, tokens = 0;
};
struct ForgetState { DeviceId device; ModelId model; StateId state; };
struct DropSequence { DeviceId device; ModelId model; SeqId seq; };
struct Reject { JobId job; Reason reason = Reason::QueueFull; };
using Action =
    std::variant<LoadModel, UnloadModel, OpenSequence, RunStep, SaveState, RestoreState,
                 ForgetState, DropSequence, Reject>;
// clang-format on

struct StepItem {
  JobId job;
  SeqId seq;
  std::uint32_t tokens = 0;
};

// Device time that a job is charged for one item of an answered step: the item's marginal cost, as
// the cost table predicts it, and an equal part of what is fixed. A step's charges sum to its time.
struct Charge {
  JobId job;
  MemberId member;
  Duration device{};
};

// One answer of the scheduler; refilled by step(), its memory kept by the caller.
struct Decision {
  std::vector<Action> actions;
  std::vector<StepItem> items;
  std::vector<Charge> charges;       // In the order of the answered runs' items.
  Instant wake_at = Instant::max();  // Call step() by then even if nothing happens.

  void clear();
};

// Keys of the whole blocks of a token sequence: key i stands for all tokens up to the end of block
// i, so that two sequences with the same model and scope share exactly as many blocks as their keys
// agree from the front. Appends to `out` the keys of the blocks that it lacks.
inline constexpr std::uint32_t kBlockTokens = 16;
struct PrefixScope {
  std::uint64_t own = 0;     // Whose words they are.
  std::uint64_t shared = 0;  // Of the first `shared_blocks` blocks instead.
  std::size_t shared_blocks = 0;
};
void append_prefix_keys(const PrefixScope& scope, std::span<const std::int32_t> tokens,
                        std::vector<std::uint64_t>& out);

}  // namespace lares::sched
