// Decides which device runs what, and when.
//
// Pure and deterministic: no clock, thread, I/O, random number or log. What happened outside comes
// in as Events, with the time; what to do outside goes out as Actions. The server and the simulator
// drive this same class, so a recorded event log replays to the same actions on any machine.
//
// Owned by one thread. Why it is built this way: docs/adr/0001-pure-scheduler.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/result.h"
#include "core/types.h"
#include "sched/event.h"
#include "sched/policy.h"

namespace lares::sched {

// How steps are put together where a policy leaves it open. The defaults are ours; the rest models
// other servers in the simulator.
struct Batching {
  std::uint32_t admit_every = 1;  // While anything runs: steps between two looks at the queue.
  bool prompts_apart = false;     // Prompts are read in a step of their own.
  // A job is admitted if, whenever a running one ends, all that still run fit into so many tokens,
  // each assumed to reach its full output. 0: by the output expected of it.
  std::uint32_t reserve_tokens = 0;
};

// Limits, fixed for the scheduler's life.
struct Options {
  std::string policy = "lares";
  PolicyOptions tuning{};
  // Classes of work; a job's ClassId is an index. Empty: one class without targets.
  std::vector<ClassSpec> classes{};
  // Jobs waiting or running at once; the next one is rejected. 1..1048576.
  std::uint32_t jobs_max = 4096;
  // Jobs that run at once in one model. 1..256; within the model's sequences.
  std::uint32_t running_max = 64;
  // Most tokens of one step: decodes first, then prompt chunks. 1..65536. Less keeps streams smooth
  // while a prompt is read; more reads it sooner.
  std::uint32_t step_tokens = 512;
  // Policy lares: longest step while any stream is live on the device, and while none is. What
  // somebody who arrives waits for at most, once. 1 ms..10 s.
  Duration slice = std::chrono::milliseconds(100);
  Duration slice_alone = std::chrono::milliseconds(100);
  // Policy lares: least tokens of prompt in a step that has any to read, whatever its time: the
  // floor that guarantees progress. Also what chunks are aligned to. 1..256.
  std::uint32_t chunk_least = 16;
  // Steps given to a device before the first of them is answered: one computes, one waits behind
  // it, so that the device never waits for a decision. 1..2.
  std::uint32_t runs_in_flight = 2;
  // Policy lares: the second step is given when the first is predicted to end within this: the
  // device never waits for a decision, and who arrives waits for little more than one step.
  Duration ahead_max = std::chrono::milliseconds(25);
  // Policy lares: device time, over weight, by which a member may be ahead of another one whose
  // jobs of the same class run, before its next jobs of the class wait; as long as enough run for
  // the device to be used well (CostTable::knee). Also what the other one may be behind when it
  // comes with its next job. 0..60 s.
  Duration lead_max = std::chrono::milliseconds(500);
  // Output that a job is expected to make until its member's are known, unless its own limit is
  // less. When it makes more and the pool is full, the youngest job steps back and is computed
  // again. 0..65536.
  std::uint32_t output_expected = 128;
  // Most tokens of the pool that ended sequences may keep for reuse; how many do follows the use
  // that is made of them, because cached cells widen the span that every step works over. 0..pool.
  std::uint32_t cache_tokens = 8192;
  // Of a model's pool, in thousandths: what one member's jobs may hold while others wait; a job
  // that would make it more lets the others go first. 1..1000.
  std::uint32_t member_pool = 1000;
  // Runs in a row that may die with their worker before the job in them is rejected; from the
  // second on it runs alone. 1..100. More than a few, for somebody outside may be killing workers.
  std::uint32_t losses_max = 6;
  Batching batching{};
};

// What the configuration promises: while memory lasts, a member's oldest job of a class is given
// its first chunk within `longest_wait` (by class), and no step is predicted longer than
// `longest_slice`; unless streams that share prefixes attend to more than the pool holds.
struct Guarantees {
  Duration longest_slice{};
  std::vector<Duration> longest_wait{};
};
// `members`: how many may have work at once.
Guarantees guarantees(const Options& options, const ModelLimits& limits, const CostTable& cost,
                      std::uint32_t members);

class Scheduler {
 public:
  // Errors: NotFound (policy), Invalid, naming the field and its range, or floors or guarantees
  // that add up to more than the whole.
  static Result<Scheduler> create(const Options& options);
  Scheduler(Scheduler&&) noexcept;
  Scheduler& operator=(Scheduler&&) noexcept;
  ~Scheduler();

  // Takes in what happened up to `now` and refills `out` with what to do. `now` never goes
  // backwards. An early call is harmless. Cost: linear in events and running jobs.
  void step(Instant now, std::span<const Event> events, Decision& out);

  [[nodiscard]] std::uint32_t waiting() const;
  [[nodiscard]] std::uint32_t running() const;

  // What is known of one model's pool; zeros when it is not resident.
  struct PoolUse {
    std::uint32_t tokens = 0, free = 0, cached = 0;
  };
  [[nodiscard]] PoolUse pool(ModelId model) const;

  // As refined by what was measured; nothing until the model has been ready.
  [[nodiscard]] const CostTable* cost(ModelId model) const;

  // One member's account, for people: service / weight, what is expected beyond it, and jobs.
  struct MemberUse {
    MemberId member;
    std::int64_t counter = 0, outstanding = 0;
    std::uint32_t waiting = 0, running = 0, lifts = 0;
  };
  [[nodiscard]] std::vector<MemberUse> members() const;

  // Why a job waits, beside those that go before it.
  enum class Why : std::uint8_t { Order, Memory, ModelLoads, OwnLimit };
  struct Place {
    JobId job;
    std::uint32_t position = 0;   // Jobs that go before it.
    std::uint32_t ahead_own = 0;  // Of its own member's.
    Why why = Why::Order;
    Duration estimate{};  // Until it begins, from what is ahead and recent prices.
  };
  // All that wait, first to go first. For people: linear in them, and sorts. Changes no decision.
  [[nodiscard]] std::vector<Place> queue();

  // Asserts the invariants; the simulator and the tests call it after every step.
  //   1. Every pool's ledger adds up (KvPool::check), and a running job holds blocks for every
  //      token planned for it.
  //   2. A job is waiting or running, never both; it has a sequence exactly while it runs.
  //   3. A device has at most runs_in_flight runs unanswered.
  //   4. The jobs of a lane are in the order of their arrival; running jobs of a model likewise.
  //   5. What is planned never exceeds what is known plus the tokens being sampled, and output
  //      planned never exceeds output_max.
  //   6. Accounts add up (Accounts::check), and count the jobs there are.
  void check() const;

  struct State;  // state.h

 private:
  explicit Scheduler(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace lares::sched
