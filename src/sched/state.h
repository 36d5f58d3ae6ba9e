// The scheduler's inside: jobs, models, devices. Included by src/sched/*.cc alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sched/kv_pool.h"
#include "sched/policy.h"
#include "sched/scheduler.h"

namespace lares::sched {

using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = ~Slot{0};

struct Job {
  enum class At : std::uint8_t { Free, Waiting, Running };

  JobId id;
  MemberId member;
  ClassId cls;
  TaskId task;
  ModelId model;
  At at = At::Free;
  std::uint64_t arrival = 0;        // Order of arrival over all jobs.
  std::uint32_t prompt = 0;         // Tokens.
  std::uint32_t output_max = 0;     // Tokens.
  std::uint32_t produced = 0;       // Output tokens known.
  std::uint32_t sampling = 0;       // Output tokens that unanswered items will sample.
  std::uint32_t planned = 0;        // Tokens in the KV cache once every unanswered item is done.
  std::uint32_t computed = 0;       // Tokens in the KV cache for certain.
  std::uint32_t unanswered = 0;     // Items in runs not answered yet.
  std::uint32_t epoch = 0;          // Counts the sequences it has had: tells stale answers.
  std::uint32_t losses = 0;         // Runs in a row that died with it in them.
  std::uint64_t in_step = 0;        // The step being built, if it has an item there.
  SeqId seq;                        // While running.
  std::vector<std::uint64_t> keys;  // Of the prompt's blocks.
  Slot previous = kNoSlot, next = kNoSlot;  // Among the waiting.

  // Tokens that exist or will exist once the unanswered items are done.
  [[nodiscard]] std::uint32_t known() const { return prompt + produced + sampling; }
  // Tokens the next item may compute.
  [[nodiscard]] std::uint32_t need() const {
    return produced + sampling >= output_max ? 0 : known() - planned;
  }
};

// Jobs in slots that are reused, a list of the waiting in the order of arrival, and a way to find a
// job by its id.
class JobTable {
 public:
  explicit JobTable(std::uint32_t jobs_max);

  [[nodiscard]] bool full() const { return free_.empty(); }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_count_; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(by_id_.size()); }
  Job& operator[](Slot slot) { return jobs_[slot]; }
  const Job& operator[](Slot slot) const { return jobs_[slot]; }
  [[nodiscard]] Slot find(JobId id) const;
  Slot add(JobId id);
  void remove(Slot slot);
  // Into the list of the waiting, by its arrival.
  void wait(Slot slot);
  void unwait(Slot slot);
  [[nodiscard]] Slot first_waiting() const { return first_; }
  void check() const;

 private:
  std::vector<Job> jobs_;
  std::vector<Slot> free_;
  std::unordered_map<JobId, Slot> by_id_;  // Looked up, never iterated.
  Slot first_ = kNoSlot, last_ = kNoSlot;
  std::uint32_t waiting_count_ = 0;
};

struct Model {
  enum class At : std::uint8_t { Absent, Loading, Ready, Failed };

  ModelId id;
  DeviceId device;
  At at = At::Absent;
  ModelLimits limits;
  std::optional<KvPool> pool;
  std::vector<Slot> running;       // In the order of arrival.
  std::uint64_t last_planned = 0;  // Tick of its last step.
  std::uint32_t cache_budget = 0;  // Tokens that cached sequences may keep now; see trim_cache().
};

struct PlannedItem {
  Slot slot = kNoSlot;
  JobId job;
  std::uint32_t epoch = 0;
  std::uint32_t tokens = 0;
  bool samples = false;
};

struct Unanswered {
  RunId run;
  ModelId model;
  std::vector<PlannedItem> items;
};

struct Device {
  DeviceId id;
  std::vector<Unanswered> runs;  // Oldest first; entries beyond `count` are kept for their memory.
  std::uint32_t count = 0;
};

struct Scheduler::State {
  State(Options o, std::unique_ptr<Policy> p)
      : options(std::move(o)), policy(std::move(p)), jobs(options.jobs_max) {}

  Options options;
  std::unique_ptr<Policy> policy;
  JobTable jobs;
  std::vector<Model> models;    // By ModelId.
  std::vector<Device> devices;  // By DeviceId.
  Instant now{};
  std::uint64_t arrivals = 0, runs = 0, plans = 0;
  std::uint32_t running = 0;
  std::vector<ModelId> order;   // Scratch of plan().
  bool look_for_loads = false;  // Some model of a waiting job may be absent.

  // scheduler.cc: what happened.
  void on(const ModelReady& event, Decision& out);
  void on(const ModelFailed& event, Decision& out);
  void on(const ModelForgotten& event, Decision& out);
  void on(const DeviceLost& event, Decision& out);
  void on(const Submitted& event, Decision& out);
  void on(const Ended& event, Decision& out);
  void on(const Stepped& event, Decision& out);
  Model& model(ModelId id);
  Device& device(DeviceId id);
  void step_back(Model& model, Slot slot);  // Running -> waiting, its sequence forgotten.
  void forget_sequences(Model& model);
  void reject_all(Model& model, Decision& out);
  void reject(Slot slot, Reason reason, Decision& out);
  void release(Slot slot, std::span<const std::uint64_t> keys, EndCause cause, Decision& out);

  void request_loads(Decision& out);
  void trim_cache(Model& model, SeqId newest, Decision& out);

  // step_builder.cc: what to do.
  void plan(Device& device, Decision& out);
};

}  // namespace lares::sched
