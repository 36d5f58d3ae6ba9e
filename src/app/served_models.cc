#include "app/served_models.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/image_folder.h"
#include "app/model_folder.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/text.h"

namespace lares::app {
namespace {

// Another number once a part of the model has another size or time.
std::uint64_t stamp_of(const std::string& path) {
  std::uint64_t stamp = 0;
  for (const std::string& part : model_parts(path)) {
    struct stat info {};
    if (::stat(part.c_str(), &info) != 0) continue;
    stamp = hash_combine(stamp, static_cast<std::uint64_t>(info.st_size));
    stamp = hash_combine(stamp, static_cast<std::uint64_t>(info.st_mtim.tv_sec));
    stamp = hash_combine(stamp, static_cast<std::uint64_t>(info.st_mtim.tv_nsec));
  }
  return stamp;
}

bool contains(const std::vector<server::ModelEntry>& models, const server::ModelEntry& model) {
  return std::ranges::find(models, model) != models.end();
}

}  // namespace

Result<std::vector<server::ModelEntry>> served_models(const Config& config) {
  std::vector<server::ModelEntry> models;
  for (const ConfiguredModel& m : config.models) {
    models.push_back({.name = m.name,
                      .path = m.path,
                      .context = m.context,
                      .pool_tokens = m.pool_tokens == 0 ? config.pool_tokens : m.pool_tokens,
                      .adapter = m.adapter,
                      .adapter_scale = m.adapter_scale,
                      .pinned = m.pinned,
                      .keep = m.keep});
  }
  if (!config.models_folder.empty()) {
    for (const FoundModel& m : TRY(find_models(config.models_folder))) {
      const bool known = std::ranges::any_of(models, [&](const auto& other) {
        return other.name == m.name || (other.path == m.path && other.adapter.empty());
      });
      if (!known)
        models.push_back({.name = m.name, .path = m.path, .pool_tokens = config.pool_tokens});
    }
  }
  if (!config.models_folder.empty()) {
    for (const std::string& folder : find_image_models(config.models_folder)) {
      std::string name = std::filesystem::path(folder).lexically_normal().filename().string();
      const bool known = std::ranges::any_of(
          models, [&](const auto& other) { return other.name == name || other.path == folder; });
      if (!known) models.push_back({.name = std::move(name), .path = folder, .pictures = true});
    }
  }
  if (models.empty() && config.engine == "sim") models.push_back({.name = "sim", .path = "sim"});
  if (models.empty()) {
    return fail(Code::NotFound,
                fmt::format("there is no GGUF file in {}; put a model there (`lares model add "
                            "FILE`), or name another folder with --models",
                            config.models_folder));
  }
  for (server::ModelEntry& model : models) {
    model.stamp = stamp_of(model.path);
    if (!model.adapter.empty()) model.stamp = hash_combine(model.stamp, stamp_of(model.adapter));
  }
  const auto named = [&](const auto& m) { return m.name == config.default_model; };
  if (!config.default_model.empty() && std::ranges::none_of(models, named)) {
    std::vector<std::string_view> names;
    for (const auto& m : models) names.push_back(m.name);
    return fail(Code::NotFound,
                fmt::format("models.default names `{}`, which is not there.{}",
                            config.default_model, suggestion(config.default_model, names)));
  }
  return models;
}

std::vector<server::ModelEntry> settled_models(const std::vector<server::ModelEntry>& served,
                                               const std::vector<server::ModelEntry>& before,
                                               const std::vector<server::ModelEntry>& now) {
  std::vector<server::ModelEntry> out;
  for (const server::ModelEntry& model : now) {
    if (contains(served, model) || contains(before, model)) {
      out.push_back(model);
      continue;
    }
    // Changing: what was served under this name goes on for now.
    const auto old = std::ranges::find(served, model.name, &server::ModelEntry::name);
    if (old != served.end()) out.push_back(*old);
  }
  return out;
}

ModelWatch::ModelWatch(Find find, std::vector<server::ModelEntry> served, Duration period,
                       Changed changed)
    : find_(std::move(find)),
      served_(std::move(served)),
      before_(served_),
      period_(period),
      changed_(std::move(changed)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void ModelWatch::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    look();
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, period_, [] { return false; });
  }
}

void ModelWatch::look() {
  auto now = find_();
  if (!now) return;
  std::vector<server::ModelEntry> settled = settled_models(served_, before_, *now);
  before_ = std::move(*now);
  if (settled == served_) return;
  log_info("models changed", {{"models", settled.size()}});
  served_ = std::move(settled);
  changed_(served_);
}

}  // namespace lares::app
