#include "server/sketch_run.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/text.h"
#include "server/sketch_support.h"
#include "server/sketch_text.h"
#include "sketch/catalogue.h"
#include "sketch/tree.h"

namespace lares::server {
namespace {

using sketch::Node;
using Kind = sketch::Type::Kind;

std::uint32_t all_steps(const Node& node) {
  return number<std::uint32_t>(argument(node.fixed, "steps"), 1);
}

// Steps of its schedule that lie before what the node runs.
std::uint32_t first_step(const Node& node) {
  const std::string_view until = argument(node.at_run, "until");
  return (until.empty() ? all_steps(node) : number<std::uint32_t>(until, 0)) - node.steps;
}

engine::PictureSize pixels_of(const sketch::Type& type) {
  const std::uint32_t factor = type.kind == Kind::Latent ? type.space.factor : 1;
  return {type.size.width * factor, type.size.height * factor};
}

}  // namespace

SketchRun::SketchRun(std::shared_ptr<const sketch::Plan> plan, std::vector<SketchInput> inputs,
                     std::string scope, SketchHost& host, KeptLatents latents)
    : plan_(std::move(plan)),
      inputs_(std::move(inputs)),
      scope_(std::move(scope)),
      host_(host),
      latents_(std::move(latents)),
      models_(models_of(*plan_)) {
  make_units();
}

const Node& SketchRun::node_of(std::uint32_t unit) const {
  return plan_->nodes[units_[unit].node];
}

std::uint32_t SketchRun::add(Unit unit) {
  units_.push_back(std::move(unit));
  return static_cast<std::uint32_t>(units_.size() - 1);
}

void SketchRun::start() {
  left_ = passes_ = passes_done_ = 0;
  for (Unit& unit : units_) {
    unit.at = Unit::At::Waiting;
    const std::string& op = plan_->nodes[unit.node].op;
    unit.needed = (op == "out" || op == "keep") && !unit.put;
    unit.shared = unit.held = false;
    unit.users = unit.passes_done = 0;
    left_ += unit.needed ? 1 : 0;
  }
  for (std::size_t i = units_.size(); i-- > 0;) {
    Unit& unit = units_[i];
    if (!unit.needed) continue;
    if (unit.told) {
      unit.at = Unit::At::Done;
      continue;
    }
    if (unit.asked) unit.at = Unit::At::Begun;
    if (!unit.key.empty()) {
      const std::string& model = model_of(unit);
      if (const auto handle = host_.cached(model, unit.key)) {
        unit.handle = *handle;
        unit.held = unit.shared = true;
        unit.at = Unit::At::Done;
        ++counts_.cache_hits;
        continue;
      }
    }
    passes_ += unit.passes;
    for (const std::uint32_t input : unit.inputs) {
      units_[input].needed = true;
      ++units_[input].users;
    }
  }
  begin_ready();
}

void SketchRun::begin_ready() {
  for (std::uint32_t i = 0; i < units_.size(); ++i) {
    const Unit& unit = units_[i];
    if (!unit.needed || unit.at != Unit::At::Waiting) continue;
    const bool ready = std::ranges::all_of(
        unit.inputs, [this](std::uint32_t input) { return units_[input].at == Unit::At::Done; });
    if (ready) begin(i);
  }
  for (auto& [model, embed] : std::exchange(embeds_, {})) host_.embed(std::move(embed));
}

void SketchRun::begin(std::uint32_t i) {
  Unit& unit = units_[i];
  const Node& node = plan_->nodes[unit.node];
  unit.at = Unit::At::Begun;
  if (node.op == "out") return begin_out(i);
  if (node.op == "ask") return begin_ask(i);
  if (node.op == "embed") {
    unit.asked = true;
    SketchEmbed& together = embeds_[node.model];
    together.model = node.model;
    together.units.push_back(i);
    together.texts.push_back(units_[unit.inputs.front()].text);
    return;
  }
  if (node.op == "encode" && take_words(i)) return;
  if (node.op == "keep") {
    const Unit& from = units_[unit.inputs.front()];
    fetching_.emplace(from.handle, i);
    return host_.fetch_latent(model_of(from), from.handle);
  }
  auto work = work_of(unit);
  if (!work) return finish(i);  // A text, or a picture that was given.
  unit.handle = host_.new_handle();
  unit.held = true;
  if (const auto* encode = std::get_if<engine::EncodePicture>(&*work))
    counts_.bytes_copied += encode->picture.rgb.size();
  host_.begin({.unit = i,
               .model = model_of(unit),
               .handle = unit.handle,
               .work = std::move(*work),
               .passes = unit.passes,
               .batch_key = batch_key_of(unit)});
  if (unit.passes == 0) finish(i);
}

void SketchRun::begin_out(std::uint32_t i) {
  const Unit& unit = units_[i];
  const Unit& from = units_[unit.inputs.front()];
  if (from.held) {
    fetching_.emplace(from.handle, i);
    return host_.fetch(model_of(from), from.handle);
  }
  const Node& node = plan_->nodes[unit.node];
  SketchOutput out{.index = unit.index, .medium = std::string(argument(node.at_run, "medium"))};
  out.text = from.text;
  if (node.type.kind == Kind::Embedding)
    out.text = out.medium == "npy" ? npy_of(from.vector) : json_of(from.vector);
  else if (out.medium == "json")
    out.text = json_quoted(from.text);
  if (from.picture) out.picture = *from.picture;
  host_.put(std::move(out));
  put(i);
}

void SketchRun::begin_ask(std::uint32_t i) {
  Unit& unit = units_[i];
  const Node& node = plan_->nodes[unit.node];
  unit.asked = true;
  SketchAsk ask{.unit = i, .model = node.model, .seed = unit.seed};
  // "text system json": what each input is.
  std::string_view roles = argument(node.fixed, "takes");
  for (const std::uint32_t input : unit.inputs) {
    const std::string_view role = roles.substr(0, roles.find(' '));
    roles.remove_prefix(std::min(roles.size(), role.size() + 1));
    (role == "system" ? ask.system : role == "json" ? ask.schema : ask.text) = units_[input].text;
  }
  if (const auto most = number<std::uint32_t>(argument(node.at_run, "max"), 0); most > 0)
    ask.max = most;
  if (const std::string_view heat = argument(node.at_run, "temp"); !heat.empty())
    ask.temperature = number<double>(heat, 0);
  host_.ask(std::move(ask));
}

// Words that were written meanwhile, which may have been encoded before: then that is all.
bool SketchRun::take_words(std::uint32_t i) {
  Unit& unit = units_[i];
  if (unit.inputs.empty()) return false;
  unit.text = units_[unit.inputs.front()].text;
  unit.key = words_key(scope_, plan_->nodes[unit.node].model, unit.text);
  const auto handle = host_.cached(model_of(unit), unit.key);
  if (!handle) return false;
  unit.handle = *handle;
  unit.held = unit.shared = true;
  unit.at = Unit::At::Done;
  passes_ -= unit.passes;
  ++counts_.cache_hits;
  for (const std::uint32_t input : unit.inputs) drop_user(input);
  return true;
}

std::optional<engine::PictureWork> SketchRun::work_of(const Unit& unit) const {
  const Node& node = plan_->nodes[unit.node];
  const auto handle = [&](std::size_t i) { return units_[unit.inputs[i]].handle; };
  if (node.op == "encode") return engine::EncodeText{unit.text};
  if (node.op == "sample") return sample_of(unit);
  // One in the middle of its schedule goes on from its values: see sample_of().
  if (node.op == "lat" && unit.latent && !node.type.noise)
    return engine::AdoptLatent{unit.latent->latent};
  if (node.op == "decode") return engine::DecodeLatent{handle(0)};
  if (node.op == "resize") return engine::ResizeLatent{handle(0), pixels_of(node.type)};
  if (node.op == "latent") {
    const Unit& from = units_[unit.inputs[0]];
    engine::EncodePicture work{.size = pixels_of(node.type)};
    if (from.held) work.pixels = from.handle;
    if (from.picture) work.picture = *from.picture;
    if (work.size.width == 0) work.size = work.picture.size;
    return work;
  }
  if (node.op == "blend") {
    return engine::BlendLatents{handle(0), handle(1),
                                number<double>(argument(node.at_run, "weight"), 0.5), false};
  }
  if (node.op == "walk") {
    const double last = static_cast<double>(values_[unit.node].size() - 1);
    return engine::BlendLatents{handle(0), handle(1), unit.element / last, true};
  }
  return std::nullopt;
}

engine::SampleLatent SketchRun::sample_of(const Unit& unit) const {
  const Node& node = plan_->nodes[unit.node];
  const bool guided = node.rows == 2;
  const std::size_t words = unit.inputs.size() - (guided ? 2 : 1);
  engine::SampleLatent work{.words = units_[unit.inputs[words]].handle,
                            .seed = unit.seed,
                            .steps = all_steps(node),
                            .sampler = std::string(argument(node.fixed, "sampler")),
                            .size = pixels_of(node.type)};
  if (guided) {
    work.negative = units_[unit.inputs.back()].handle;
    work.cfg = number<double>(argument(node.at_run, "cfg"), 1);
  }
  if (words == 0) return work;
  const Unit& from = units_[unit.inputs.front()];
  const Node& before = plan_->nodes[from.node];
  if (before.type.noise) {
    work.seed = from.seed;
    work.go_on = engine::GoOn{.step = before.type.noise->done};
    if (from.latent) {
      work.go_on->copy = from.latent->latent.values;
    } else {
      work.go_on->held = from.handle;
    }
  } else {
    work.from = from.handle;
    work.strength = static_cast<double>(work.steps - first_step(node)) / work.steps;
  }
  return work;
}

// As the engine's own: whatever differs only in seeds, words and steps shares a pass.
std::string SketchRun::batch_key_of(const Unit& unit) const {
  const Node& node = plan_->nodes[unit.node];
  if (node.op == "encode") return "text " + node.model;
  if (node.op != "sample" || plan_->exact) return "";
  return fmt::format("sample {} {} {}", node.model, node.type.size.text(), node.rows);
}

void SketchRun::on_pass(std::uint32_t i, std::uint32_t passes_done) {
  Unit& unit = units_[i];
  const std::uint32_t now = passes_done - std::min(passes_done, unit.passes_before);
  if (unit.at != Unit::At::Begun || now <= unit.passes_done) return;
  const std::uint32_t more = now - unit.passes_done;
  unit.passes_done = now;
  passes_done_ += more;
  const std::string& op = plan_->nodes[unit.node].op;
  if (op == "sample") counts_.unet_steps += more;
  if (op == "decode") counts_.decodes += more;
  if (op == "latent") counts_.encodes += more;
  if (op == "encode") counts_.text_encodes += more;
  if (unit.passes_done < unit.passes) return;
  host_.finished(i);
  finish(i);
  begin_ready();
}

void SketchRun::on_fetched(engine::Handle handle, engine::Picture picture) {
  const auto found = fetching_.find(handle);
  if (found == fetching_.end()) return;
  const std::uint32_t i = found->second;
  fetching_.erase(found);
  const Unit& unit = units_[i];
  counts_.bytes_copied += picture.rgb.size();
  SketchOutput out{.index = unit.index,
                   .medium = std::string(argument(plan_->nodes[unit.node].at_run, "medium"))};
  out.picture = std::move(picture);
  host_.put(std::move(out));
  put(i);
  begin_ready();
}

void SketchRun::on_text(std::uint32_t i, std::string text) {
  Unit& unit = units_[i];
  if (unit.at != Unit::At::Begun) return;
  unit.text = std::move(text);
  unit.told = true;
  finish(i);
  begin_ready();
}

void SketchRun::on_vector(std::uint32_t i, std::vector<float> vector) {
  Unit& unit = units_[i];
  if (unit.at != Unit::At::Begun) return;
  unit.vector = std::move(vector);
  unit.told = true;
  finish(i);
  begin_ready();
}

void SketchRun::on_latent(engine::Handle handle, engine::LatentCopy latent) {
  const auto found = fetching_.find(handle);
  if (found == fetching_.end()) return;
  const std::uint32_t i = found->second;
  fetching_.erase(found);
  const Unit& unit = units_[i];
  const Node& node = plan_->nodes[unit.node];
  counts_.bytes_copied += latent.values.size() * sizeof(float);
  host_.put(SketchKeep{.index = unit.index,
                       .name = plan_->nodes[node.inputs.front()].name,
                       .type = node.type,
                       .time = parse_duration(argument(node.at_run, "for")).value_or(Duration{}),
                       .seed = units_[unit.inputs.front()].seed,
                       .latent = std::move(latent)});
  put(i);
  begin_ready();
}

void SketchRun::put(std::uint32_t i) {
  units_[i].put = true;
  --left_;
  finish(i);
}

// It is done: kept for the next time if it may be, and what it was made of is let go.
void SketchRun::finish(std::uint32_t i) {
  Unit& unit = units_[i];
  unit.at = Unit::At::Done;
  if (unit.held && !unit.key.empty()) {
    unit.shared = host_.keep(model_of(unit), unit.key, unit.handle, unit.passes);
  }
  for (const std::uint32_t input : unit.inputs) drop_user(input);
}

void SketchRun::drop_user(std::uint32_t i) {
  Unit& unit = units_[i];
  LARES_ASSERT(unit.users > 0, "unit {} has no users left", i);
  if (--unit.users > 0 || !unit.held) return;
  unit.held = false;
  const std::string& model = model_of(unit);
  unit.shared ? host_.let_go(model, unit.key) : host_.forget(model, unit.handle);
}

void SketchRun::restart() {
  fetching_.clear();
  for (Unit& unit : units_) {
    if (unit.held && unit.shared) host_.let_go(model_of(unit), unit.key);
    unit.held = false;
  }
  start();
}

void SketchRun::end() {
  for (Unit& unit : units_) {
    if (!unit.held) continue;
    unit.held = false;
    const std::string& model = model_of(unit);
    unit.shared ? host_.let_go(model, unit.key) : host_.forget(model, unit.handle);
  }
}

}  // namespace lares::server
