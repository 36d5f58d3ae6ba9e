#include "server/sketch_catalogue.h"

namespace lares::server {

sketch::Model sketch_model(const std::string& name, const engine::ModelInfo& info, bool warm) {
  const engine::PictureFacts& facts = info.picture;
  sketch::Model model{.name = name, .digest = facts.digest, .warm = warm, .weights = info.weights};
  // As device workers load them; others are not chosen by a sketch yet.
  model.dtypes = {"f16"};
  model.space = {.name = facts.space,
                 .family = facts.family,
                 .channels = facts.channels,
                 .factor = facts.factor,
                 .scale = sketch::Decimal::millionths(facts.scale_millionths),
                 .shift = sketch::Decimal::millionths(facts.shift_millionths)};
  model.multiple = facts.multiple;
  model.usual = {facts.usual.width, facts.usual.height};
  model.encoder = facts.encoder;
  model.cond_tokens = facts.prompt_tokens;
  model.cond_width = facts.prompt_width;
  model.takes_width = facts.takes_width;
  model.sampler = facts.sampler;
  model.steps = facts.steps;
  model.steps_draft = facts.steps_draft;
  model.steps_fine = facts.steps_fine;
  model.cfg = sketch::Decimal::millionths(facts.cfg_millionths);
  return model;
}

}  // namespace lares::server
