#include <array>

#include <fmt/format.h>

#include "core/text.h"
#include "sim/simulate.h"

namespace lares::sim {
namespace {

// Llama-2-7B on one A10G with a pool of 10,000 tokens, as the artifact of "Fairness in Serving
// Large Language Models" ran it: new requests are looked at every ten decode steps, prompts are
// read in a pass of their own, and a request is admitted if all would fit to their ends. Five
// constants, fitted to that artifact's `overload_multi` runs alone (docs/simulator.md).
SimulatedDevice a10g() {
  SimulatedDevice d;
  d.name = "a10g-llama2-7b";
  d.about = "Llama-2-7B on one A10G, pool of 10,000 tokens; fitted to published runs";
  d.batching = {.admit_every = 10, .prompts_apart = true, .reserve_tokens = 10000};
  d.slice = d.slice_alone = std::chrono::milliseconds(500);
  d.limits = {.pool_tokens = 10000,
              .context = 4096,
              .sequences = 256,
              .batch_tokens = 65536,
              .cut_anywhere = false};
  constexpr std::int64_t kDecode = 26'515'000, kEach = 61'100, kPrompt = 257'300;
  std::array<std::int64_t, sched::CostTable::kKnots> curve{};
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const std::int64_t tokens = sched::CostTable::knot_tokens(i);
    // Up to 64 tokens a step is one of decodes; beyond, a pass over prompts.
    curve[i] = kDecode + std::min<std::int64_t>(tokens, 64) * kEach +
               std::max<std::int64_t>(tokens - 64, 0) * kPrompt;
  }
  d.cost = *sched::CostTable::create(curve);
  d.cost.decode_attended_ps = d.cost.prompt_attended_ps = d.cost.short_attended_ps = 1'125'000;
  d.cost.prompt_pass_ns = 45'990'000;
  return d;
}

// The 0.1B model of docs/ARCHITECTURE.md on two zen5 cores: steps of so many tokens, measured with
// short contexts.
SimulatedDevice two_core() {
  SimulatedDevice d;
  d.name = "two-core-0.1b";
  d.about = "a 0.1B model on two zen5 cores; one step of the library, measured";
  d.limits = {.pool_tokens = 32768,
              .context = 8192,
              .sequences = 128,
              .batch_tokens = 512,
              .cut_anywhere = false};
  constexpr std::int64_t kUs = 1000;
  // Prompts beside four decodes, less those.
  d.cost = *sched::CostTable::create(
      {6300 * kUs, 11900 * kUs, 17000 * kUs, 22900 * kUs, 24500 * kUs, 38000 * kUs, 60000 * kUs},
      {6300 * kUs, 7900 * kUs, 11000 * kUs, 17000 * kUs, 24000 * kUs, 34000 * kUs, 56000 * kUs,
       99000 * kUs, 177000 * kUs, 406000 * kUs});
  return d;
}

}  // namespace

Result<SimulatedDevice> find_device(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames{"a10g-llama2-7b", "two-core-0.1b", "this"};
  if (name == "a10g-llama2-7b") return a10g();
  if (name == "two-core-0.1b") return two_core();
  return fail(Code::NotFound,
              fmt::format("there is no device `{}`.{} The devices are {}, {} and {}.", name,
                          suggestion(name, kNames), kNames[0], kNames[1], kNames[2]));
}

}  // namespace lares::sim
