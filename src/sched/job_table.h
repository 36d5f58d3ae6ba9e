// Jobs in slots that are reused, the waiting ones in lanes, and a way to find a job by its id.
//
// A lane holds the waiting jobs of one (model, member, class, task) in the order of their arrival:
// the policy orders lanes, never single jobs, so a step costs what there are lanes, not jobs.
// Included by src/sched/*.cc alone.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/types.h"
#include "sched/accounts.h"

namespace lares::sched {

using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = ~Slot{0};

struct Job {
  enum class At : std::uint8_t { Free, Waiting, Running };

  JobId id;
  ClassId cls;
  TaskId task_id;
  ModelId model;
  Accounts::Index member = 0, task = 0;
  At at = At::Free;
  std::uint64_t arrival = 0;        // Order of arrival over all jobs.
  Instant submitted{};              // When.
  Instant started{};                // When it last got a sequence.
  Instant served{};                 // When it was last given anything; at first, when submitted.
  Instant last_output{};            // When its last token was sampled.
  std::uint32_t prompt = 0;         // Tokens.
  std::uint32_t output_max = 0;     // Tokens; 0: done when the prompt is computed (embeddings).
  std::uint32_t produced = 0;       // Output tokens known.
  std::uint32_t sampling = 0;       // Output tokens that unanswered items will sample.
  std::uint32_t planned = 0;        // Tokens in the KV cache once every unanswered item is done.
  std::uint32_t computed = 0;       // Tokens in the KV cache for certain.
  std::uint32_t unanswered = 0;     // Items in runs not answered yet.
  std::uint32_t epoch = 0;          // Counts the sequences it has had: tells stale answers.
  std::uint32_t losses = 0;         // Runs in a row that died with it in them.
  std::uint64_t in_step = 0;        // The step being built, if it has an item there.
  std::int64_t expected = 0;        // Its part of the member's outstanding prediction.
  SeqId seq;                        // While running.
  StateId state;                    // What it had computed when it stepped back, if that was saved.
  std::uint32_t checkpoint = 0;     // Tokens at which reading its prompt stops, to be saved; or 0.
  std::uint64_t batch_key = 0;      // Of a graph, whose tokens are passes.
  std::vector<std::uint64_t> keys;  // Of the prompt's blocks.
  Slot previous = kNoSlot, next = kNoSlot;  // In its lane.
  std::uint32_t lane = 0;                   // While waiting.

  // Tokens that exist or will exist once the unanswered items are done.
  [[nodiscard]] std::uint32_t known() const { return prompt + produced + sampling; }
  // Tokens the next item may compute.
  [[nodiscard]] std::uint32_t need() const {
    if (output_max == 0) return prompt - planned;
    return produced + sampling >= output_max ? 0 : known() - planned;
  }
  // So many runs in a row died with it in them that it runs alone.
  [[nodiscard]] bool is_suspect() const { return losses >= 2; }
  // Its next item continues a stream.
  [[nodiscard]] bool decodes() const { return produced + sampling > 0 && need() == 1; }
};

// What an order among jobs asks of one.
struct Claimant {
  ModelId model;
  ClassId cls;
  Accounts::Index member = 0, task = 0;
  bool started = false;    // It runs; else it waits.
  bool answered = false;   // No run that it was part of is still under way.
  std::uint32_t left = 0;  // Tokens known and not planned.
  std::uint64_t arrival = 0;
  Instant submitted{}, served{};

  bool operator==(const Claimant&) const = default;
};
Claimant claimant(const Job& job);

struct Lane {
  Claimant front{};  // Of `first`: who goes over the lanes touches no job.
  Slot first = kNoSlot, last = kNoSlot;
  Accounts::Index task = 0;
  std::uint32_t place = 0;  // In the list of lanes that are not empty.
};

class JobTable {
 public:
  // `by_task`: jobs of different tasks wait in different lanes.
  JobTable(std::uint32_t jobs_max, bool by_task);

  [[nodiscard]] bool full() const { return free_.empty(); }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_count_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(by_id_.size()); }
  Job& operator[](Slot slot) { return jobs_[slot]; }
  const Job& operator[](Slot slot) const { return jobs_[slot]; }
  [[nodiscard]] Slot find(JobId id) const;
  Slot add(JobId id);
  void remove(Slot slot);
  // Into its lane, by its arrival.
  void wait(Slot slot);
  void unwait(Slot slot);
  // What a job's claim tells of it has changed, perhaps while it waits. REQUIRED after such.
  void changed(Slot slot);
  // Lanes that hold something, as indices for lane().
  [[nodiscard]] const std::vector<std::uint32_t>& lanes() const { return used_lanes_; }
  [[nodiscard]] const Lane& lane(std::uint32_t index) const { return lanes_[index]; }
  // All that wait, in the order of their arrival.
  [[nodiscard]] std::vector<Slot> all_waiting() const;
  void check() const;

 private:
  std::uint32_t lane_of(const Job& job);

  bool by_task_;
  std::vector<Job> jobs_;
  std::vector<Slot> free_;
  std::unordered_map<JobId, Slot> by_id_;  // Looked up, never iterated.
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> free_lanes_, used_lanes_;
  struct LaneKey {
    std::uint64_t owner, work;
    bool operator==(const LaneKey&) const = default;
  };
  struct LaneHash {
    std::size_t operator()(const LaneKey& key) const;
  };
  std::unordered_map<LaneKey, std::uint32_t, LaneHash> lane_by_key_;  // Looked up, never iterated.
  std::uint32_t waiting_count_ = 0;
};

}  // namespace lares::sched
