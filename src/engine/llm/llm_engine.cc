#include "engine/llm/llm_engine.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "engine/llm/backend.h"
#include "engine/llm/info.h"

namespace lares::llm {
namespace {

// llama.cpp's LLAMA_MAX_SEQ, less the one that states are copied through.
constexpr std::uint32_t kSequencesMax = 255;

Instant clock_now() {
  return Instant(std::chrono::steady_clock::now().time_since_epoch());
}

// Another one once another file stands at this path.
std::string file_identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return path;
  return fmt::format("{}:{}:{}:{}.{}", path, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
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

Result<const LlmEngine::Resident*> LlmEngine::resident(ModelId model) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end() || !found->second.ready()) {
    return fail(Code::NotFound, fmt::format("model {} is not loaded", model.value));
  }
  return &found->second;
}

Result<Model*> LlmEngine::find(ModelId model) const {
  Model* text = TRY(resident(model))->text.get();
  if (text != nullptr) return text;
  return fail(Code::Unsupported, "texts to embed are computed again, not saved");
}

Result<std::shared_ptr<llama_model>> LlmEngine::weights(const engine::LoadSpec& spec) {
  std::erase_if(weights_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<llama_model>& known = weights_[file_identity(spec.path)];
  if (auto shared = known.lock()) return shared;
  TRY_VOID(check_model_file(spec.path));
  clear_backend_error();
  // The defaults: every layer on the GPU where there is one, weights mapped from the file, and
  // repacked for this processor where its backend has a better layout.
  llama_model_ptr model(
      llama_model_load_from_file(spec.path.c_str(), llama_model_default_params()));
  if (!model) return tl::unexpected(load_error(spec.path, backend_error()));
  std::shared_ptr<llama_model> shared(std::move(model));
  known = shared;
  return shared;
}

Result<LlmEngine::Resident> LlmEngine::make(const engine::LoadSpec& spec,
                                            std::uint32_t measuring_threads) {
  if (spec.sequences == 0 || spec.sequences > kSequencesMax) {
    return fail(Code::Invalid, fmt::format("{}: {} sequences were asked for; 1 to {} are possible",
                                           spec.path, spec.sequences, kSequencesMax));
  }
  auto shared = TRY(weights(spec));
  Resident made;
  if (spec.embeds) {
    made.embedder = TRY(Embedder::load(spec, std::move(shared), pool_, measuring_threads));
  } else {
    made.text = TRY(Model::load(spec, std::move(shared), pool_, measuring_threads));
  }
  return made;
}

Result<engine::Loaded> LlmEngine::load(const engine::LoadSpec& spec) {
  const Instant begin = clock_now();
  std::uint32_t measuring_threads = 0;
  {
    // The empty place keeps a second load of the same model out while this one works.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!models_.try_emplace(spec.model).second) {
      return fail(Code::Conflict,
                  fmt::format("model {} is loaded or loading already", spec.model.value));
    }
    // Two contexts must not compute on the pool at once.
    if (spec.measure_steps && models_.size() == 1) measuring_threads = pool_threads_;
  }
  Result<Resident> model = make(spec, measuring_threads);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!model) {
    models_.erase(spec.model);
    return tl::unexpected(std::move(model.error()));
  }
  engine::Loaded loaded = spec.embeds ? model->embedder->loaded() : model->text->loaded();
  loaded.took = clock_now() - begin;
  models_[spec.model] = std::move(*model);
  return loaded;
}

Result<> LlmEngine::unload(ModelId model) {
  TRY(resident(model));
  Resident gone;  // Freed outside the lock.
  const std::lock_guard<std::mutex> lock(mutex_);
  gone = std::move(models_[model]);
  models_.erase(model);
  return {};
}

Result<> LlmEngine::open(const engine::Open& open) {
  const Resident* model = TRY(resident(open.model));
  return model->embedder ? model->embedder->open(open) : model->text->open(open);
}

std::uint32_t LlmEngine::threads_now() {
  if (!options_.give_way) return governor_.threads();
  const Instant now = clock_now();
  return governor_.due(now) ? governor_.update(read_cpu_times(now)) : governor_.threads();
}

Result<engine::Ran> LlmEngine::run(const engine::Run& run) {
  const Resident* model = TRY(resident(run.model));
  const std::uint32_t threads = threads_now();
  return model->embedder ? model->embedder->run(run, threads) : model->text->run(run, threads);
}

Result<engine::Saved> LlmEngine::save(const engine::Save& save) {
  const Instant begin = clock_now();
  engine::Saved saved = TRY(TRY(find(save.model))->save(save));
  saved.took = clock_now() - begin;
  return saved;
}

Result<> LlmEngine::restore(const engine::Restore& restore) {
  return TRY(find(restore.model))->restore(restore);
}

void LlmEngine::forget(ModelId model, StateId state) {
  if (const Result<Model*> found = find(model)) (*found)->forget(state);
}

void LlmEngine::drop(ModelId model, SeqId seq) {
  const Result<const Resident*> found = resident(model);
  if (!found) return;
  if ((*found)->embedder) return (*found)->embedder->drop(seq);
  (*found)->text->drop(seq);
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
    if (!model.ready()) continue;
    report.models.push_back(model.embedder ? model.embedder->memory() : model.text->memory());
    if (model.text) report.host_saved += model.text->host_saved();
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
