// What a decision costs: one step of the scheduler with so many running and waiting, and how often
// it allocates. `ninja -C build decide && build/decide`. Policy lares, the household's classes;
// what waits is in three of them.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "sched/classes.h"
#include "sched/scheduler.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

}  // namespace

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace {

using namespace lares;
using namespace lares::sched;

// `running` streams that never end, and `waiting` jobs behind them that never start.
void steps(benchmark::State& state) {
  const auto running = static_cast<std::uint32_t>(state.range(0));
  const auto waiting = static_cast<std::uint64_t>(state.range(1));
  const auto members = static_cast<std::uint32_t>(state.range(2));
  Options options;
  options.policy = "lares";
  options.classes = household_classes();
  for (ClassSpec& cls : options.classes) cls.longest_wait = std::chrono::hours(10000);
  options.jobs_max = 1U << 20U;
  options.running_max = running;
  options.runs_in_flight = 1;
  auto scheduler = std::move(*Scheduler::create(options));
  const ModelLimits limits{.pool_tokens = 1U << 24U,
                           .context = 1U << 20U,
                           .sequences = 256,
                           .batch_tokens = 512,
                           .cut_anywhere = false};
  std::vector<Event> events{ModelReady{ModelId{0}, DeviceId{0}, limits}};
  Decision out;
  Instant now{};
  std::vector<ItemDone> done;
  RunId run;
  const auto step = [&] {
    now += std::chrono::milliseconds(20);
    scheduler.step(now, events, out);
    events.clear();
    done.clear();
    for (const Action& action : out.actions) {
      const auto* const sent = std::get_if<RunStep>(&action);
      if (sent == nullptr) continue;
      run = sent->run;
      for (std::uint32_t i = 0; i < sent->count; ++i) {
        const StepItem& item = out.items[sent->first + i];
        done.push_back({item.job, item.tokens, true});
      }
    }
    events.emplace_back(Stepped{DeviceId{0}, run, std::chrono::milliseconds(20), done});
  };
  for (std::uint64_t job = 0; job < running; ++job)
    events.emplace_back(
        Submitted{JobId{job}, MemberId{1000000}, ClassId{1}, {}, ModelId{0}, 1, 1U << 19U, {}});
  for (int i = 0; i < 200; ++i) step();
  for (std::uint64_t job = 0; job < waiting; ++job) {
    events.emplace_back(Submitted{JobId{running + job},
                                  MemberId{static_cast<std::uint32_t>(job % members)},
                                  ClassId{static_cast<std::uint32_t>(job % 3)},
                                  {},
                                  ModelId{0},
                                  100,
                                  100,
                                  {}});
  }
  for (int i = 0; i < 50; ++i) step();
  const std::uint64_t before = allocations.load();
  for (auto _ : state) step();
  state.counters["allocations"] = benchmark::Counter(
      static_cast<double>(allocations.load() - before) / static_cast<double>(state.iterations()));
}

// Running, waiting, members that wait.
BENCHMARK(steps)
    ->Args({64, 0, 1})
    ->Args({64, 1000, 8})
    ->Args({64, 1000, 100})
    ->Args({64, 100000, 8})
    ->Args({64, 100000, 1000})
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
