#include "server/sketch_run.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "sketch/catalogue.h"
#include "sketch/tree.h"

namespace lares::server {
namespace {

using sketch::Node;
using Kind = sketch::Type::Kind;

std::string_view argument(const sketch::Pairs& pairs, std::string_view name) {
  const auto found = std::ranges::find(pairs, name, [](const auto& pair) { return pair.first; });
  return found == pairs.end() ? std::string_view() : std::string_view(found->second);
}

template <class T>
T number(std::string_view text, T fallback) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : fallback;
}

// "7", "[1 2 3]"
std::vector<std::uint64_t> seeds_of(const Node& node) {
  std::vector<std::uint64_t> seeds;
  std::string_view text = argument(node.at_run, "seed");
  while (!text.empty()) {
    const std::size_t from = text.find_first_of("0123456789");
    if (from == std::string_view::npos) break;
    text.remove_prefix(from);
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    seeds.push_back(number<std::uint64_t>(text.substr(0, end), 0));
    text.remove_prefix(end);
  }
  return seeds;
}

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

bool takes_list(const sketch::Plan& plan, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](std::uint32_t i) { return plan.nodes[i].type.list; });
}

// Whose device has the node's value.
const std::string& model_of(const Node& node) {
  return node.model.empty() ? node.type.model : node.model;
}

std::string why_not(const sketch::Plan& plan, const Node& node) {
  const std::string_view medium = argument(node.at_run, "medium");
  if (node.op == "ask" || node.op == "embed" || node.op == "chunk" || node.op == "keep" ||
      node.op == "lat") {
    return fmt::format("`{}` is not carried out yet", node.op);
  }
  if (node.op == "out" && medium != "png" && medium != "txt")
    return fmt::format("`out ... {}` is not carried out yet; write png or txt", medium);
  if (node.op == "resize" && node.type.kind == Kind::Pixels)
    return "pixels are not resized yet; resize the latent";
  if (node.op == "walk" && takes_list(plan, node)) return "`walk` takes two single latents so far";
  if (node.op == "input" && node.type.kind == Kind::Json) return "JSON inputs are not taken yet";
  if (node.op != "sample" || node.inputs.size() < 2) return "";
  const Node& from = plan.nodes[node.inputs.front()];
  if (!from.type.noise) return "";
  if (from.op != "sample") return "only what `sample` left off is carried on so far";
  if (!argument(from.at_run, "from").empty())
    return "what began `from` a latent is not carried on after `until` yet";
  return "";
}

}  // namespace

std::optional<std::string> cannot_run(const sketch::Plan& plan) {
  for (const Node& node : plan.nodes) {
    if (const std::string why = why_not(plan, node); !why.empty())
      return fmt::format("line {}, column {}: {}", node.place.line, node.place.column, why);
  }
  return std::nullopt;
}

SketchRun::SketchRun(std::shared_ptr<const sketch::Plan> plan, std::vector<SketchInput> inputs,
                     std::string scope, SketchHost& host)
    : plan_(std::move(plan)), inputs_(std::move(inputs)), scope_(std::move(scope)), host_(host) {
  make_units();
}

const Node& SketchRun::node_of(std::uint32_t unit) const {
  return plan_->nodes[units_[unit].node];
}

std::uint32_t SketchRun::add(Unit unit) {
  units_.push_back(std::move(unit));
  return static_cast<std::uint32_t>(units_.size() - 1);
}

// A single value goes with every element of the others.
std::uint32_t SketchRun::element_of(std::uint32_t node, std::uint32_t element) const {
  const auto& all = values_[node];
  LARES_ASSERT(!all.empty(), "node {} has no value", node);
  return all[all.size() == 1 ? 0 : element % all.size()];
}

std::uint32_t SketchRun::count_of(const Node& node) const {
  std::size_t count = 1;
  for (const std::uint32_t input : node.inputs) count = std::max(count, values_[input].size());
  return static_cast<std::uint32_t>(count);
}

void SketchRun::make_units() {
  values_.resize(plan_->nodes.size());
  negatives_.resize(plan_->nodes.size());
  for (std::uint32_t n = 0; n < plan_->nodes.size(); ++n) make_node(n);
}

void SketchRun::make_text(Unit unit, const Node& node) {
  std::size_t input = 0;
  for (const sketch::Piece& piece :
       sketch::pieces_of(argument(node.at_run, "text")).value_or(std::vector<sketch::Piece>{})) {
    unit.text +=
        piece.insert ? units_[element_of(node.inputs[input++], unit.element)].text : piece.text;
  }
  values_[unit.node].push_back(add(std::move(unit)));
}

std::uint32_t SketchRun::words_unit(std::uint32_t n, const std::string& text) {
  const Node& node = plan_->nodes[n];
  const std::string key =
      sketch::digest_of(fmt::format("words\n{}\n{}\n{}", scope_, node.model, text));
  const auto [known, fresh] = words_.try_emplace(key, 0);
  if (fresh) known->second = add({.node = n, .text = text, .key = key, .passes = 1});
  return known->second;
}

void SketchRun::make_encode(std::uint32_t n) {
  const Node& node = plan_->nodes[n];
  const std::uint32_t count = count_of(node);
  for (std::uint32_t e = 0; e < count; ++e) {
    values_[n].push_back(words_unit(n, units_[element_of(node.inputs[0], e)].text));
    const std::string no =
        node.inputs.size() > 1 ? units_[element_of(node.inputs[1], e)].text : std::string();
    negatives_[n].push_back(words_unit(n, no));
  }
}

void SketchRun::make_node(std::uint32_t n) {
  const Node& node = plan_->nodes[n];
  std::vector<std::uint32_t>& made = values_[n];
  if (node.op == "list") {
    for (const std::uint32_t input : node.inputs)
      made.insert(made.end(), values_[input].begin(), values_[input].end());
    return;
  }
  if (node.op == "encode") return make_encode(n);
  if (node.op == "input") {
    const auto given =
        std::ranges::find(inputs_, argument(node.at_run, "name"), &SketchInput::name);
    if (given == inputs_.end()) return;
    for (const std::string& text : given->texts) made.push_back(add({.node = n, .text = text}));
    if (given->picture) made.push_back(add({.node = n, .picture = given->picture}));
    return;
  }
  std::uint32_t count = count_of(node);
  const std::vector<std::uint64_t> seeds = seeds_of(node);
  const auto each = static_cast<std::uint32_t>(std::max<std::size_t>(seeds.size(), 1));
  if (node.op == "sample") count *= each;
  if (node.op == "walk") count = number<std::uint32_t>(argument(node.fixed, "frames"), 2);
  for (std::uint32_t e = 0; e < count; ++e) {
    Unit unit{.node = n, .element = e};
    if (node.op == "text") {
      make_text(std::move(unit), node);
      continue;
    }
    const std::uint32_t from = node.op == "sample" ? e / each : e;
    for (const std::uint32_t input : node.inputs) unit.inputs.push_back(element_of(input, from));
    if (node.op == "sample") {
      unit.passes = node.steps;
      const auto& begun = plan_->nodes[node.inputs.front()].type.noise;
      if (begun) unit.passes_before = begun->done;
      unit.seed = seeds.empty() ? host_.new_seed() : seeds[e % each];
      const std::uint32_t cond = node.inputs.back();
      if (node.rows == 2) {
        const auto& no = negatives_[cond];
        unit.inputs.push_back(no.empty() ? unit.inputs.back() : no[from % no.size()]);
      }
    } else if (node.op == "decode" || node.op == "latent") {
      unit.passes = 1;
    } else if (node.op == "out") {
      unit.index = files_++;
    }
    if (!node.value_key.empty() && unit.passes > 0)
      unit.key = fmt::format("{}:{}", node.value_key, e);
    made.push_back(add(std::move(unit)));
  }
}

void SketchRun::start() {
  left_ = passes_ = passes_done_ = 0;
  for (Unit& unit : units_) {
    unit.at = Unit::At::Waiting;
    unit.needed = plan_->nodes[unit.node].op == "out" && !unit.put;
    unit.shared = unit.held = false;
    unit.users = unit.passes_done = 0;
    left_ += unit.needed ? 1 : 0;
  }
  for (std::size_t i = units_.size(); i-- > 0;) {
    Unit& unit = units_[i];
    if (!unit.needed) continue;
    if (!unit.key.empty()) {
      const std::string& model = model_of(plan_->nodes[unit.node]);
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
}

void SketchRun::begin(std::uint32_t i) {
  Unit& unit = units_[i];
  const Node& node = plan_->nodes[unit.node];
  unit.at = Unit::At::Begun;
  if (node.op == "out") {
    const Unit& from = units_[unit.inputs.front()];
    if (from.held) {
      fetching_.emplace(from.handle, i);
      return host_.fetch(model_of(plan_->nodes[from.node]), from.handle);
    }
    SketchOutput out{.index = unit.index, .medium = std::string(argument(node.at_run, "medium"))};
    out.text = from.text;
    if (from.picture) out.picture = *from.picture;
    host_.put(std::move(out));
    unit.put = true;
    --left_;
    return finish(i);
  }
  auto work = work_of(unit);
  if (!work) return finish(i);  // A text, or a picture that was given.
  unit.handle = host_.new_handle();
  unit.held = true;
  if (const auto* encode = std::get_if<engine::EncodePicture>(&*work))
    counts_.bytes_copied += encode->picture.rgb.size();
  host_.begin({.unit = i,
               .model = model_of(node),
               .handle = unit.handle,
               .work = std::move(*work),
               .passes = unit.passes,
               .batch_key = batch_key_of(unit)});
  if (unit.passes == 0) finish(i);
}

std::optional<engine::PictureWork> SketchRun::work_of(const Unit& unit) const {
  const Node& node = plan_->nodes[unit.node];
  const auto handle = [&](std::size_t i) { return units_[unit.inputs[i]].handle; };
  if (node.op == "encode") return engine::EncodeText{unit.text};
  if (node.op == "sample") return sample_of(unit);
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
    work.go_on = engine::GoOn{.step = before.type.noise->done, .held = from.handle};
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
  Unit& unit = units_[i];
  counts_.bytes_copied += picture.rgb.size();
  host_.put({.index = unit.index,
             .medium = std::string(argument(plan_->nodes[unit.node].at_run, "medium")),
             .picture = std::move(picture)});
  unit.put = true;
  --left_;
  finish(i);
  begin_ready();
}

// It is done: kept for the next time if it may be, and what it was made of is let go.
void SketchRun::finish(std::uint32_t i) {
  Unit& unit = units_[i];
  unit.at = Unit::At::Done;
  if (unit.held && !unit.key.empty()) {
    unit.shared = host_.keep(model_of(plan_->nodes[unit.node]), unit.key, unit.handle, unit.passes);
  }
  for (const std::uint32_t input : unit.inputs) drop_user(input);
}

void SketchRun::drop_user(std::uint32_t i) {
  Unit& unit = units_[i];
  LARES_ASSERT(unit.users > 0, "unit {} has no users left", i);
  if (--unit.users > 0 || !unit.held) return;
  unit.held = false;
  const std::string& model = model_of(plan_->nodes[unit.node]);
  unit.shared ? host_.let_go(model, unit.key) : host_.forget(model, unit.handle);
}

void SketchRun::restart() {
  fetching_.clear();
  for (Unit& unit : units_) {
    if (unit.held && unit.shared) host_.let_go(model_of(plan_->nodes[unit.node]), unit.key);
    unit.held = false;
  }
  start();
}

void SketchRun::end() {
  for (Unit& unit : units_) {
    if (!unit.held) continue;
    unit.held = false;
    const std::string& model = model_of(plan_->nodes[unit.node]);
    unit.shared ? host_.let_go(model, unit.key) : host_.forget(model, unit.handle);
  }
}

}  // namespace lares::server
