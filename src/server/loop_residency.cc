// What models take of the device's memory, and which of them are held: the scheduler decides by
// what is told here.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/log.h"
#include "core/text.h"
#include "engine/embedding.h"
#include "engine/pool_size.h"
#include "server/loop_core.h"

namespace lares::server {
namespace {

constexpr DeviceId kDevice{0};

// Until a model was loaded: its buffers, and how fast its file is read.
constexpr std::int64_t kComputeLeast = std::int64_t{32} << 20;
constexpr std::int64_t kComputePart = 16;      // And so much of the weights.
constexpr std::int64_t kBytesPerMs = 500'000;  // A plain disk.

constexpr std::uint32_t kPoolUnit = 256, kPoolLeast = 1024;  // Tokens.

}  // namespace

// As the device is told; 0 = the engine chooses from what is free.
std::uint32_t LoopCore::pool_tokens_for(const ModelState& model) const {
  if (model.embeds) return engine::kEmbedPoolTokens;
  if (model.pool_most > 0) return model.pool_most;
  if (model.entry.pool_tokens > 0 || options_.device_memory.count == 0)
    return model.entry.pool_tokens;
  return engine::choose_pool_tokens(model.info, options_.device_memory);
}

// What runs goes on, in less: a quarter is taken off the pool of each model that was loaded.
void LoopCore::shrink_pools() {
  if (workers_->memory_kills() == memory_kills_) return;
  for (ModelState& model : models_) {
    const bool held = model.at == ModelState::At::Loading || model.at == ModelState::At::Ready;
    if (!held || model.embeds || model.pool_tokens == 0) continue;
    const std::uint32_t from = model.pool_tokens;
    model.pool_most = std::max(from / 4 * 3 / kPoolUnit * kPoolUnit, std::min(from, kPoolLeast));
    model.measured = false;
    log_warn("memory ran out and the system ended the device worker; the model gets a smaller pool",
             {{"model", model.entry.name},
              {"from", from},
              {"pool_tokens", model.pool_most},
              {"to_keep_it", "set device.memory or device.pool_tokens"}});
  }
}

void LoopCore::set_budget(Bytes budget) {
  budget_ = budget;
  events_.emplace_back(sched::DeviceMemory{kDevice, budget});
  for (std::uint32_t i = 0; i < models_.size(); ++i) {
    if (models_[i].at == ModelState::At::Available) tell_need(i);
  }
}

void LoopCore::guess_need(ModelState& model) const {
  if (model.measured) return;
  const std::int64_t weights = model.info.weights.count;
  if (model.info.can.pictures) {
    model.need = Bytes{weights + kComputeLeast};
    model.reload = std::chrono::milliseconds(weights / kBytesPerMs + 1);
    return;
  }
  std::int64_t cells = pool_tokens_for(model);
  if (cells == 0) cells = engine::choose_pool_tokens(model.info, budget_);
  model.need =
      Bytes{cells * model.info.kv_per_token.count + kComputeLeast + weights / kComputePart};
  model.reload = std::chrono::milliseconds(weights / kBytesPerMs + 1);
}

void LoopCore::tell_need(std::uint32_t index, bool wanted) {
  ModelState& model = models_[index];
  guess_need(model);
  if (std::string why = too_large_for_device(model); !why.empty())
    return fail_model(index, std::move(why));
  const Bytes weights = model.info.weights;
  // Its twin is loaded from the same file, and so are those with adapters.
  const auto first = std::ranges::find_if(
      models_, [&](const ModelState& other) { return other.entry.path == model.entry.path; });
  events_.emplace_back(sched::ModelNeed{
      .model = ModelId{index},
      .device = kDevice,
      .bytes = model.loads_alone && budget_.count > 0 ? std::max(model.need, budget_ - weights)
                                                      : model.need,
      .shared = weights,
      .file = ModelId{static_cast<std::uint32_t>(first - models_.begin())},
      .reload = model.reload,
      .keep = model.keep,
      .pinned = model.entry.pinned && !model.embeds && !model.gone,
      .wanted = wanted});
}

// Why it can never be loaded, if so: nobody leaves for it in vain.
std::string LoopCore::too_large_for_device(const ModelState& model) const {
  if (budget_.count == 0 || model.measured) return "";
  Bytes pinned{};
  for (const ModelState& other : models_) {
    if (&other != &model && other.entry.pinned && !other.embeds && !other.gone)
      pinned += other.need + other.info.weights;
  }
  const Bytes need = model.need + model.info.weights;
  if (need + pinned <= budget_) return "";
  const std::string beside = pinned.count == 0
                                 ? ""
                                 : fmt::format(", of which models that are always kept take {}",
                                               format_bytes(pinned.count));
  return fmt::format(
      "it takes about {} ({} of weights, the rest its KV pool and buffers), and {} are there for "
      "models{}; take a smaller model or quantisation, give it a smaller pool (pool_tokens), or "
      "raise device.memory",
      format_bytes(need.count), format_bytes(model.info.weights.count), format_bytes(budget_.count),
      beside);
}

void LoopCore::perform(const sched::LoadModel& action) {
  load_model(action.model.value);
}

void LoopCore::perform(const sched::UnloadModel& action) {
  ModelState& model = models_[action.model.value];
  model.at = ModelState::At::Available;
  ++model.unloads;
  models_changed_ = true;
  std::ranges::fill(model.seq_owner, JobId{});
  to_device(worker::Unload{action.model});
  to_device(worker::AskMemory{});
  if (model.info.can.pictures) restart_sketches(action.model.value);
  if (model.gone && !model.embeds) to_text(worker::Unload{action.model});
  log_info("model unloaded", {{"model", model.entry.name}, {"embeddings", model.embeds}});
}

void LoopCore::handle(const worker::LoadFailed& message) {
  const std::uint32_t index = message.model.value;
  if (index >= models_.size() || models_[index].at != ModelState::At::Loading) return;
  ModelState& model = models_[index];
  const bool others = std::ranges::any_of(
      models_, [](const ModelState& m) { return m.at == ModelState::At::Ready; });
  if (message.error.code != Code::TooLarge || !others || std::exchange(model.loads_alone, true))
    return fail_model(index, message.error.message);
  log_warn("a model did not fit beside the others, which leave for it",
           {{"model", model.entry.name}, {"why", message.error.message}});
  model.at = ModelState::At::Available;
  models_changed_ = true;
  tell_need(index);
  events_.emplace_back(sched::ModelForgotten{message.model});
}

void LoopCore::memory(std::function<void(MemoryStatus)> done) {
  post(MemoryCommand{std::move(done)});
}

void LoopCore::on(MemoryCommand command) {
  memory_asked_.push_back(std::move(command.done));
  if (!device_) return answer_memory();
  if (memory_asked_.size() == 1) to_device(worker::AskMemory{});
}

// The first report of a worker comes before it holds anything.
void LoopCore::handle(const worker::Memory& message) {
  memory_report_ = message.report;
  if (budget_.count == 0) set_budget(Bytes{memory_report_.device_free.count / 10 * 9});
  const MemoryStatus status = memory_status();
  MemoryStatus::Part sum;
  for (const MemoryStatus::Part& part : status.models) {
    sum.weights += part.weights;
    sum.kv += part.kv;
    sum.cache += part.cache;
    sum.compute += part.compute;
  }
  metrics_.memory_weights.set(static_cast<double>(sum.weights.count));
  metrics_.memory_kv.set(static_cast<double>(sum.kv.count));
  metrics_.memory_cache.set(static_cast<double>(sum.cache.count));
  metrics_.memory_compute.set(static_cast<double>(sum.compute.count));
  metrics_.memory_free.set(static_cast<double>(status.free.count));
  metrics_.memory_host.set(static_cast<double>(status.host_saved.count));
  answer_memory();
}

MemoryStatus LoopCore::memory_status() const {
  MemoryStatus status{.device = options_.device_name,
                      .total = memory_report_.device_total,
                      .budget = budget_,
                      .free = memory_report_.device_free,
                      .host_budget = options_.host_memory,
                      .host_saved = memory_report_.host_saved,
                      .models = {}};
  std::set<std::string_view> files;  // Their weights are counted.
  for (const engine::MemoryUse& use : memory_report_.models) {
    if (use.model.value >= models_.size()) continue;
    const ModelState& model = models_[use.model.value];
    const std::int64_t cell = use.pool_tokens > 0 ? use.kv.count / use.pool_tokens : 0;
    const Bytes cache{cell * scheduler_.pool(use.model).cached};
    status.models.push_back(
        {.name = model.entry.name,
         .embeds = model.embeds,
         .weights = files.insert(model.entry.path).second ? use.weights : Bytes{},
         .kv = use.kv - cache,
         .compute = use.compute,
         .cache = cache});
  }
  return status;
}

void LoopCore::answer_memory() {
  for (const auto& done : std::exchange(memory_asked_, {})) done(memory_status());
}

}  // namespace lares::server
