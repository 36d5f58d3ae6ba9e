// A model as the scheduler knows it: whether it is held, its pool, its prices, who runs on it.
// Included by src/sched/*.cc alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sched/cost_table.h"
#include "sched/event.h"
#include "sched/graph_costs.h"
#include "sched/job_table.h"
#include "sched/kv_pool.h"

namespace lares::sched {

// Graphs that go through their network together. At most one pass of a model is under way.
struct Pass {
  std::uint64_t number = 0;  // Counts them; those of answers that come late are others.
  bool running = false;      // It has begun, and is not over.
  std::uint64_t key = 0;
  std::uint32_t rows = 0;   // That it began with.
  Duration spent{};         // By the slices that were answered.
  std::vector<Slot> slots;  // Of jobs that still want it.
};

struct Model {
  enum class At : std::uint8_t {
    Absent,
    Loading,
    Ready,
    Leaving,  // Nothing of it is planned; unloaded once its last run is answered.
    Failed
  };

  ModelId id;
  DeviceId device;
  At at = At::Absent;
  ModelLimits limits;
  CostTable cost;
  bool was_ready = false;
  std::optional<KvPool> pool;
  std::vector<Slot> running;       // In the order of arrival.
  std::uint64_t last_planned = 0;  // Tick of its last step.
  std::uint32_t cache_budget = 0;  // Tokens that cached sequences may keep now; see trim_cache().
  std::uint32_t steps_since_look = 0;    // At the queue.
  std::uint32_t steps_since_prompt = 0;  // That read any.
  std::uint32_t prompts_apart = 0;       // Steps of theirs that left streams waiting.
  std::int64_t prompt_ns = 0;  // What a token of prompt, and of output, is charged; recent means.
  std::int64_t output_ns = 0;
  Pass pass;  // Of graphs; and what passes cost.
  GraphCosts graph_costs;
  ModelNeed need{};       // What holding it takes.
  bool wanted = false;    // Though no job waits for it.
  Instant ready_at{};     // When it was last loaded.
  Instant used_at{};      // When a job came for it, or a step of it was answered.
  std::int64_t uses = 0;  // Jobs of late, in 1024ths: half as many every ten minutes.
  Instant uses_at{};      // When they were last halved.
};

// Blocks that hold so many tokens.
constexpr std::uint32_t blocks_for(std::uint64_t tokens) {
  return static_cast<std::uint32_t>((tokens + kBlockTokens - 1) / kBlockTokens);
}

// Whether the job could run with the model to itself.
bool could_fit(const Job& job, const Model& model);

}  // namespace lares::sched
