#include <algorithm>

#include "sched/scheduler.h"

namespace lares::sched {
namespace {

// The most that `unit` more tokens of prompt can add to a step.
Duration largest_overshoot(const Options& options, const ModelLimits& limits,
                           const CostTable& cost) {
  const std::uint32_t unit = options.chunk_least;
  Duration most{};
  for (std::uint32_t tokens = 1; tokens <= limits.batch_tokens; tokens *= 2) {
    const StepShape before{.tokens = tokens, .prompt = tokens, .span = limits.pool_tokens};
    StepShape after = before;
    after.tokens += unit;
    after.prompt += unit;
    after.attended += std::uint64_t{unit} * limits.context;
    most = std::max(most, cost.time(after) - cost.time(before));
  }
  return most;
}

}  // namespace

Guarantees guarantees(const Options& options, const ModelLimits& limits, const CostTable& cost,
                      std::uint32_t members) {
  // Either the time budget, overshot by one unit of alignment, or a step of decodes alone, with the
  // floor's chunk. Decodes attend to no more than the pool, unless they share prefixes.
  const std::uint32_t decodes = std::min(options.running_max, limits.sequences);
  const std::uint32_t tokens =
      std::min({decodes + options.chunk_least, options.step_tokens, limits.batch_tokens});
  const Duration overshoot = largest_overshoot(options, limits, cost);
  const std::uint32_t unit = std::min(options.chunk_least, tokens);
  const std::uint64_t all_decoded =
      std::min<std::uint64_t>(std::uint64_t{tokens - unit} * limits.context, limits.pool_tokens);
  // Where prompts are better read apart, they are: both together take no longer than one by one.
  Duration widest = cost.time({.tokens = tokens - unit,
                               .attended = all_decoded,
                               .decoded = all_decoded,
                               .span = limits.pool_tokens}) +
                    cost.time({.tokens = unit,
                               .prompt = unit,
                               .attended = std::uint64_t{unit} * limits.context,
                               .span = limits.pool_tokens}) +
                    kPassBudget * Duration(cost.prompt_pass_ns) +
                    (cost.prompt_pass_ns > 0 ? overshoot : Duration{});
  Duration budget = std::max(options.slice, options.slice_alone) + overshoot;
  if (cost.has_tiles()) {  // CostTable::fill_tile().
    widest += widest / 2;
    budget += budget / 2;
  }
  Guarantees result{.longest_slice = std::max(widest, budget), .longest_wait = {}};
  // A job that is due waits for the runs in flight and, at worst, for a step of every other
  // member's oldest job of every class that has been waiting longer.
  const auto steps = static_cast<Duration::rep>(
      options.runs_in_flight + members * std::max<std::size_t>(options.classes.size(), 1));
  for (const ClassSpec& cls : options.classes)
    result.longest_wait.push_back(cls.longest_wait + steps * result.longest_slice);
  return result;
}

}  // namespace lares::sched
