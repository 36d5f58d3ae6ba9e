// Runs a workload through the scheduler against a cost table, on a virtual clock.
//
// The scheduler is the one that the server runs: the same object code. The device does one run at a
// time, each as long as its table says; nothing else takes time. Deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "sched/scheduler.h"
#include "sim/workload.h"

namespace lares::sim {

// A device with one model on it.
struct SimulatedDevice {
  std::string name;
  std::string about;  // For people: what it is and where its numbers come from.
  sched::ModelLimits limits;
  sched::CostTable cost;
  // How the server that was measured on it put steps together: for the policies that model such
  // servers (fifo, orca, vtc). The others bring their own.
  sched::Batching batching{};
  Bytes host{};                        // For what leaves the pool; 0 = nothing is saved.
  std::int64_t copy_bytes_per_ns = 8;  // To the host and back.
  Duration slice = std::chrono::milliseconds(100);  // Policy lares; more where steps are long.
  Duration slice_alone = std::chrono::milliseconds(100);
};

// Built in: "a10g-llama2-7b", "two-core-0.1b". Errors: NotFound, naming what there is.
Result<SimulatedDevice> find_device(std::string_view name);

struct JobRecord {
  Duration arrival{};
  Duration started = Duration(-1);  // First token of its prompt given to the device.
  Duration first_output = Duration(-1), end = Duration(-1);  // < 0: never.
  Duration longest_gap{};
  // What the queue said of it when it came, until its start; < 0: it did not wait, or nobody asked.
  Duration estimate = Duration(-1);
  std::int64_t device_ns = 0;  // Charged.
  std::uint32_t member = 0, cls = 0, prompt = 0, output = 0;
  bool rejected = false;
};

// Counts in buckets an eighth of a power of two wide: quantiles within 9 %.
class GapHistogram {
 public:
  void add(Duration gap);
  [[nodiscard]] Duration quantile(double q) const;

 private:
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(64 * 8);
  std::uint64_t total_ = 0;
};

struct Simulation {
  std::string policy;
  std::vector<JobRecord> jobs;  // By arrival.
  GapHistogram gaps;            // Between outputs of a stream.
  Duration length{};            // To the end of the last job.
  Duration busy{};              // Of the device.
  Duration longest_step{};
  std::uint64_t steps = 0, events = 0, saves = 0;
};

struct SimulateOptions {
  sched::Options scheduler;
  bool check = false;      // Asserts the scheduler's invariants after every step.
  bool estimates = false;  // Asks for every job that waits how long it will: slow.
};

// Errors: as Scheduler::create.
Result<Simulation> simulate(const Workload& workload, const SimulatedDevice& device,
                            const SimulateOptions& options);

}  // namespace lares::sim
