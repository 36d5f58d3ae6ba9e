#include "engine/llm/llm_engine.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/llm/backend.h"

namespace lares::llm {
namespace {

Instant clock_now() {
  return Instant(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

LlmEngine::LlmEngine(const LlmOptions& options, std::uint32_t threads, ThreadPool pool)
    : options_(options), pool_(std::move(pool)), pool_threads_(threads), governor_(threads) {}

Result<std::unique_ptr<LlmEngine>> LlmEngine::create(const LlmOptions& options) {
  TRY_VOID(start_backend(options.library_folder));
  const std::uint32_t threads =
      options.threads != 0 ? options.threads : read_cpu_times(clock_now()).cores;
  // Here and not in load(), which may run at low priority: threads inherit it, and one that is
  // kept from its core lets all others spin.
  ThreadPool pool = TRY(ThreadPool::create(threads));
  return std::unique_ptr<LlmEngine>(new LlmEngine(options, threads, std::move(pool)));
}

Result<Model*> LlmEngine::find(ModelId model) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end() || !found->second) {
    return fail(Code::NotFound, fmt::format("model {} is not loaded", model.value));
  }
  return found->second.get();
}

Result<engine::Loaded> LlmEngine::load(const engine::LoadSpec& spec) {
  const Instant begin = clock_now();
  std::uint32_t measuring_threads = 0;
  {
    // The empty place keeps a second load of the same model out while this one works.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!models_.emplace(spec.model, nullptr).second) {
      return fail(Code::Conflict,
                  fmt::format("model {} is loaded or loading already", spec.model.value));
    }
    // Two contexts must not compute on the pool at once.
    if (spec.measure_steps && models_.size() == 1) measuring_threads = pool_threads_;
  }
  Result<std::unique_ptr<Model>> model = Model::load(spec, pool_, measuring_threads);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!model) {
    models_.erase(spec.model);
    return tl::unexpected(std::move(model.error()));
  }
  engine::Loaded loaded = (*model)->loaded();
  loaded.took = clock_now() - begin;
  models_[spec.model] = std::move(*model);
  return loaded;
}

Result<> LlmEngine::unload(ModelId model) {
  TRY(find(model));
  std::unique_ptr<Model> gone;  // Freed outside the lock.
  const std::lock_guard<std::mutex> lock(mutex_);
  gone = std::move(models_[model]);
  models_.erase(model);
  return {};
}

Result<> LlmEngine::open(const engine::Open& open) {
  return TRY(find(open.model))->open(open);
}

std::uint32_t LlmEngine::threads_now() {
  if (!options_.give_way) return governor_.threads();
  const Instant now = clock_now();
  return governor_.due(now) ? governor_.update(read_cpu_times(now)) : governor_.threads();
}

Result<engine::Ran> LlmEngine::run(const engine::Run& run) {
  Model* model = TRY(find(run.model));
  return model->run(run, threads_now());
}

Result<Bytes> LlmEngine::save(ModelId model, SeqId seq) {
  return TRY(find(model))->save(seq);
}

Result<> LlmEngine::restore(ModelId model, SeqId seq) {
  return TRY(find(model))->restore(seq);
}

void LlmEngine::drop(ModelId model, SeqId seq) {
  if (const Result<Model*> found = find(model)) (*found)->drop(seq);
}

Result<> LlmEngine::lease(const engine::Lease& /*lease*/) {
  return fail(Code::Unsupported, "the text engine keeps no tensors for others");
}

Result<> LlmEngine::release(std::uint64_t /*handle*/) {
  return fail(Code::Unsupported, "the text engine keeps no tensors for others");
}

engine::MemoryReport LlmEngine::memory() const {
  engine::MemoryReport report;
  const DeviceMemory device = device_memory();
  report.device_total = device.total;
  report.device_free = device.free;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, model] : models_) {
    if (!model) continue;
    report.models.push_back(model->memory());
    report.host_saved += model->host_saved();
  }
  return report;
}

void LlmEngine::set_threads(std::uint32_t most) {
  governor_.set_most(std::min(most, pool_threads_));
}

RunTimes LlmEngine::last_times(ModelId model) const {
  const Result<Model*> found = find(model);
  return found ? (*found)->last_times() : RunTimes{};
}

}  // namespace lares::llm
