// Which model a request runs on.
#include <algorithm>

#include "server/loop_core.h"

namespace lares::server {
namespace {

// As far as is known before its prompt is read.
bool can_do(const ModelState& model, const Request& request) {
  if (model.at == ModelState::At::Probing) return true;
  if (request.embeds()) return model.info.can.embeds || model.info.can.generates;
  return model.info.can.generates && request.generation.max_tokens.value_or(0) < model.context;
}

}  // namespace

std::optional<std::uint32_t> LoopCore::model_for(const Request& request) const {
  const std::string& name = request.generation.model;
  const auto alias = std::ranges::find(options_.aliases, name, &ModelAlias::name);
  if (alias != options_.aliases.end()) return choose_of(*alias, request);
  return request.embeds() ? find_embedding_model(name) : find_model(name);
}

// The best that can, for a class that would rather wait for it; else the best of those that are
// loaded, or of those that are being loaded, or of all. If none can, the first that is there says
// why; nothing if none is there.
std::optional<std::uint32_t> LoopCore::choose_of(const ModelAlias& alias,
                                                 const Request& request) const {
  const bool better = std::ranges::find(options_.better_classes, request.generation.cls) !=
                      options_.better_classes.end();
  std::optional<std::uint32_t> best, there;
  int best_warmth = -1;
  for (const std::string& name : alias.models) {
    const auto found = std::ranges::find_if(models_, [&](const ModelState& model) {
      return !model.embeds && !model.gone && model.entry.name == name;
    });
    if (found == models_.end()) continue;
    const auto index = static_cast<std::uint32_t>(found - models_.begin());
    if (!there) there = index;
    const ModelState& runs = request.embeds() ? models_[found->twin] : *found;
    if (found->at == ModelState::At::Failed || runs.at == ModelState::At::Failed) continue;
    if (!can_do(*found, request)) continue;
    if (better) return index;
    const int warmth = runs.at == ModelState::At::Ready ? 2 : runs.at == ModelState::At::Loading;
    if (warmth > best_warmth) best = index;
    best_warmth = std::max(best_warmth, warmth);
  }
  return best ? best : there;
}

}  // namespace lares::server
