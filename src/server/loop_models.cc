// Which models the loop knows: they come and go with their files while the server runs.
#include <sys/stat.h>

#include <algorithm>

#include <fmt/format.h>

#include "core/log.h"
#include "core/text.h"
#include "server/loop_core.h"

namespace lares::server {
namespace {

bool uses_model(const Request& request, std::uint32_t index) {
  return request.sketch && std::ranges::any_of(request.sketch->models, [index](const auto& model) {
           return model.second.value == index;
         });
}

std::uint64_t file_time(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_mtime) : 0;
}

// Why a model is in the device's memory, or is not.
std::string why_held(const ModelState& model) {
  using At = ModelState::At;
  switch (model.at) {
    case At::Probing: return "its file is being looked at";
    case At::Failed: return "it cannot be used";
    case At::Loading: return "somebody waits for it";
    case At::Available:
      return model.unloads == 0 ? "nobody has asked for it yet; the next request loads it"
                                : "it left for another, or was long unused; the next request loads "
                                  "it again";
    case At::Ready: break;
  }
  if (model.entry.pinned) return "the configuration keeps it always";
  if (model.keep == Duration::max()) return "it stays while there is room";
  return fmt::format("it leaves {} after its last use", format_duration(model.keep));
}

}  // namespace

void LoopCore::set_models(const std::vector<ModelEntry>& models) {
  post(ModelsCommand{models});
}

// An entry and its twin for embeddings, side by side. Also called before the thread runs.
void LoopCore::add_model(const ModelEntry& entry) {
  const auto index = static_cast<std::uint32_t>(models_.size());
  for (const bool embeds : {false, true}) {
    ModelState& state = models_.emplace_back();
    state.entry = entry;
    state.created = file_time(entry.path);
    state.embeds = embeds;
    state.keep = entry.keep;
    state.twin = embeds ? index : index + 1;
  }
  {
    const std::lock_guard lock(probe_mutex_);
    probe_queue_.emplace_back(index, entry.path);
  }
  probe_wake_.notify_one();
}

void LoopCore::on(ModelsCommand command) {
  for (ModelState& model : models_) {
    if (model.embeds || model.gone) continue;
    if (std::ranges::find(command.models, model.entry) != command.models.end()) continue;
    log_info("model is gone", {{"model", model.entry.name}});
    model.gone = models_[model.twin].gone = true;
  }
  for (const ModelEntry& entry : command.models) {
    const bool known = std::ranges::any_of(models_, [&](const ModelState& model) {
      return !model.gone && !model.embeds && model.entry == entry;
    });
    if (!known) add_model(entry);
  }
  models_changed_ = true;
  begin_again();  // Who waited for a file that is gone is told so.
}

// REQUIRES: the snapshot's lock is held.
void LoopCore::publish_models() {
  models_snapshot_.clear();
  for (const ModelState& model : models_) {
    if (model.embeds || model.gone) continue;
    // What embeds only is loaded as its twin.
    const bool twin =
        model.at == ModelState::At::Available && model.info.can.embeds && !model.info.can.generates;
    const ModelState& shown = twin ? models_[model.twin] : model;
    models_snapshot_.push_back({.name = model.entry.name,
                                .state = std::string(name_of(shown.at)),
                                .error = shown.error,
                                .context = model.context,
                                .created = model.created,
                                .loads = model.loads + models_[model.twin].loads,
                                .unloads = model.unloads + models_[model.twin].unloads,
                                .memory = shown.need + shown.info.weights,
                                .why = why_held(shown),
                                .load = shown.measured ? std::optional(shown.reload) : std::nullopt,
                                .info = model.info});
  }
  // An alias is shown as the best of its models.
  for (const ModelAlias& alias : options_.aliases) {
    for (const std::string& name : alias.models) {
      const auto of = std::ranges::find(models_snapshot_, name, &ModelStatus::name);
      if (of == models_snapshot_.end()) continue;
      ModelStatus status = *of;
      status.name = alias.name;
      status.alias_of = alias.models;
      models_snapshot_.push_back(std::move(status));
      break;
    }
  }
}

void LoopCore::begin_again() {
  std::vector<JobId> waiting;
  for (auto& [id, request] : requests_) {
    if (request.at == Request::At::Model) waiting.push_back(id);
  }
  for (const JobId id : waiting) {
    const auto it = requests_.find(id);
    if (it != requests_.end()) begin(it->second);
  }
}

// Takes models that are served no more off the device, once their last request has ended.
void LoopCore::unload_gone() {
  for (std::uint32_t i = 0; i < models_.size(); ++i) {
    ModelState& model = models_[i];
    if (!model.gone || model.at != ModelState::At::Ready) continue;
    const bool asked = std::ranges::any_of(requests_, [&](const auto& entry) {
      return entry.second.model == i || entry.second.model == model.twin ||
             uses_model(entry.second, i);
    });
    const bool running =
        std::ranges::any_of(sent_runs_, [i](const SentRun& run) { return run.model == i; });
    if (asked || running) continue;
    model.at = ModelState::At::Available;
    to_device(worker::Unload{ModelId{i}});
    if (model.info.can.pictures) restart_sketches(i);
    if (!model.embeds) to_text(worker::Unload{ModelId{i}});
    events_.emplace_back(sched::ModelForgotten{ModelId{i}});
    log_info("model unloaded", {{"model", model.entry.name}});
  }
}

}  // namespace lares::server
