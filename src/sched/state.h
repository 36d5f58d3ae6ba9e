// The scheduler's inside: devices, and what ties models and jobs to them. Included by
// src/sched/*.cc alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sched/host_tier.h"
#include "sched/job_table.h"
#include "sched/model.h"
#include "sched/policy.h"
#include "sched/scheduler.h"

namespace lares::sched {

struct PlannedItem {
  Slot slot = kNoSlot;
  JobId job;
  Accounts::Index member = 0, task = 0;
  TaskId task_id;
  ClassId cls;
  std::uint32_t epoch = 0;
  std::uint32_t from = 0;  // Tokens in the cache before it.
  std::uint32_t tokens = 0;
  bool samples = false;
};

struct Unanswered {
  RunId run;
  ModelId model;
  StepShape shape{};
  Duration predicted{};
  std::uint64_t pass = 0;  // Of graphs.
  std::vector<PlannedItem> items;
};

struct Device {
  DeviceId id;
  Bytes budget{};                // For models; 0 = without limit.
  std::vector<Unanswered> runs;  // Oldest first; entries beyond `count` are kept for their memory.
  std::uint32_t count = 0;
  Instant began{};  // The oldest of them, as far as is known.
  HostTier host;
  // Picoseconds to copy a byte to the host or back; a recent mean. Until something was saved, 8
  // GB/s: slow for memory and for a PCI Express bus.
  std::int64_t copy_ps = 125;

  [[nodiscard]] Instant free_at(Instant now) const;  // When a step planned now could begin.
};

struct Scheduler::State {
  State(Options o, std::unique_ptr<Policy> p);

  Options options;
  std::unique_ptr<Policy> policy;
  Traits traits;
  JobTable jobs;
  Accounts accounts;
  std::vector<Model> models;    // By ModelId.
  std::vector<Device> devices;  // By DeviceId.
  Instant now{};
  std::uint64_t arrivals = 0, runs = 0, plans = 0;
  std::uint32_t running = 0;
  bool look_at_models = false;             // Which are held may have to change now...
  Instant look_again_at = Instant::max();  // ...or then.
  struct Claim {  // Scratch of the step builder, like the next ones, kept for its memory.
    Rank rank{};
    Slot slot = kNoSlot;
  };
  std::vector<Claim> claims;
  std::uint32_t claims_running = 0;  // Of them, when they were collected.
  std::vector<std::int64_t> marginal_costs;
  std::vector<std::uint32_t> class_shares;  // Of this plan.
  std::vector<std::int64_t> least_served;   // By class: of members with running jobs; of this plan.
  struct Future {
    std::uint32_t left = 0, tokens = 0;  // Output to come, cells now.
  };
  std::vector<Future> futures;
  std::vector<HostTier::State> gone;
  std::vector<ModelId> order;
  std::vector<Rank> model_ranks;
  // By member and class: the job unserved longest, of that plan; and when one last had its turn.
  struct Oldest {
    std::uint64_t plan = 0;
    Slot slot = kNoSlot;
    bool in_time = true;  // It has begun, or has not waited too long for its first chunk.
    Instant served{}, turn{};
  };
  std::vector<Oldest> oldest;
  std::uint64_t classes_waiting = 0;  // A bit for each class with a claim.

  // scheduler.cc: what happened to models and devices.
  void on(const ModelReady& event, Decision& out);
  void on(const ModelFailed& event, Decision& out);
  void on(const ModelForgotten& event, Decision& out);
  void on(const DeviceLost& event, Decision& out);
  Model& model(ModelId id);
  Device& device(DeviceId id);
  void forget_sequences(Model& model);

  // residency.cc: which models are held.
  void on(const ModelNeed& event, Decision& out);
  void on(const DeviceMemory& event, Decision& out);
  struct Wanted {
    ModelId model;
    Rank rank;              // Of the first of its jobs.
    bool pressing = false;  // One of them has waited as long as it may.
  };
  void count_use(Model& model);
  void settle_residency(Decision& out);
  void finish_leaving(Decision& out);
  void leave_idle();
  void leave(Model& model);
  [[nodiscard]] std::vector<Wanted> wanted_models();
  bool make_room(const Model& model, bool pressing);
  [[nodiscard]] std::int64_t bytes_of(const std::function<bool(const Model&)>& count) const;
  [[nodiscard]] bool has_jobs(const Model& model) const;
  void check_residency() const;
  void check_model(const Model& model) const;
  void check_accounts() const;

  // admission.cc: who may start.
  [[nodiscard]] bool holds_too_much(const Model& model, const Job& job) const;
  [[nodiscard]] std::uint32_t expected_output(const Job& job) const;
  [[nodiscard]] std::uint32_t needed_blocks(const Job& job) const;
  [[nodiscard]] bool fits(const Model& model, const Job& job, const KvPool::Match& match);
  [[nodiscard]] bool fits_to_the_end(const Model& model, const Job& job, std::uint32_t tokens,
                                     bool full_output);

  // host.cc: what is saved, and put back.
  struct Back {
    StateId state{};
    std::uint32_t from = 0, end = 0;  // Tokens that it would bring back.
    bool own = false;                 // The job's.
    std::uint32_t apart = 0;  // Blocks at which the prompt parts from another that is known.
  };
  void on(const HostMemory& event, Decision& out);
  void on(const StateSaved& event, Decision& out);
  void on(const StateLost& event, Decision& out);
  void on(const RestoreFailed& event, Decision& out);
  void save_job(Model& model, Slot slot, Decision& out);
  void set_checkpoint(Model& model, Job& job, std::uint32_t apart);
  void save_checkpoint(Model& model, Slot slot, Decision& out);
  void evict(Model& model, SeqId cached, Decision& out);
  [[nodiscard]] Back find_back(Model& model, Job& job, std::span<const std::uint64_t> keys,
                               std::uint32_t have);
  bool take_cells(Model& model, SeqId seq, const Back& back, Decision& out);
  void forget_state(Job& job, Decision& out);
  StateId save(Model& model, SeqId seq, HostTier::State state, std::int64_t odds, Decision& out);

  // scheduler_jobs.cc: what happened to jobs.
  void on(const MemberChanged& event, Decision& out);
  void on(const Submitted& event, Decision& out);
  void on(const Ended& event, Decision& out);
  void on(const Stepped& event, Decision& out);
  void item_done(Model& model, const PlannedItem& item, const ItemDone& done);
  void charge(Model& model, const Unanswered& run, const Stepped& event, Decision& out);
  void charge_item(Model& model, const PlannedItem& item, const ItemDone& done, Duration share);
  void expect(Job& job, const Model& model);  // Renews its part of the outstanding prediction.
  void begin(Model& model, Slot slot, SeqId seq, std::uint32_t cached);  // Waiting -> running.
  void step_back(Model& model, Slot slot);  // Running -> waiting, its sequence forgotten.
  void stop(Model& model, Slot slot);       // Running -> neither.
  void reject(Slot slot, Reason reason, Decision& out);
  void release(Slot slot, std::span<const std::uint64_t> keys, EndCause cause, Decision& out);
  void forget_job(Slot slot);
  void trim_cache(Model& model, SeqId newest, Decision& out);

  // claims.cc: who wants the device, in which order.
  [[nodiscard]] bool may_run(Accounts::Index member) const;  // By its limit of running jobs.
  [[nodiscard]] bool may_start(Slot slot) const;             // Nor does it wait for an answer.
  [[nodiscard]] Candidate candidate(const Claimant& job) const;
  [[nodiscard]] bool is_ahead(const Claimant& job) const;  // Of others of the class that run.
  [[nodiscard]] Oldest& oldest_of(Accounts::Index member, ClassId cls);
  [[nodiscard]] Rank rank(const Claimant& job, Slot slot);
  [[nodiscard]] Rank rank(Slot slot) { return rank(claimant(jobs[slot]), slot); }
  [[nodiscard]] Duration stream_slack(const Job& job, Instant start) const;
  [[nodiscard]] Rank stream_rank(Slot slot, Instant start) const;
  void find_oldest();
  void collect_claims(const Model& model);
  [[nodiscard]] Duration least_slack(DeviceId device, Instant start) const;
  void order_models(const Device& device);
  [[nodiscard]] Rank rank_model(const Model& model, const Device& device);

  // step_builder.cc: what to do.
  void plan(Device& device, Decision& out);

  // graphs.cc: jobs of many passes, done in slices.
  bool plan_graphs(Device& device, Model& model, Decision& out);
  bool begin_pass(const Device& device, Model& model, Decision& out);
  void join_pass(const Device& device, Model& model, Slot slot, Decision& out);
  [[nodiscard]] Duration graph_slice(const Device& device) const;
  void graphs_stepped(Model& model, const Unanswered& run, const Stepped& event, Decision& out);
  static void leave_pass(Model& model, Slot slot);
  void check_graphs(const Model& model) const;
};

}  // namespace lares::sched
