// From the nodes of a plan to its units: each element of each node, and what it is made of.
#include <algorithm>

#include <fmt/format.h>

#include "core/assert.h"
#include "server/sketch_run.h"
#include "server/sketch_support.h"
#include "server/sketch_text.h"
#include "sketch/tree.h"

namespace lares::server {
namespace {

using sketch::Node;

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

}  // namespace

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

// Words that are still to be written are encoded once they are.
std::uint32_t SketchRun::words_of(std::uint32_t n, std::uint32_t text) {
  if (plan_->nodes[units_[text].node].op != "ask") return words_unit(n, units_[text].text);
  return add({.node = n, .inputs = {text}, .passes = 1});
}

std::uint32_t SketchRun::words_unit(std::uint32_t n, const std::string& text) {
  const std::string key = words_key(scope_, plan_->nodes[n].model, text);
  const auto [known, fresh] = words_.try_emplace(key, 0);
  if (fresh) known->second = add({.node = n, .text = text, .key = key, .passes = 1});
  return known->second;
}

void SketchRun::make_encode(std::uint32_t n) {
  const Node& node = plan_->nodes[n];
  const std::uint32_t count = count_of(node);
  for (std::uint32_t e = 0; e < count; ++e) {
    values_[n].push_back(words_of(n, element_of(node.inputs[0], e)));
    negatives_[n].push_back(node.inputs.size() > 1 ? words_of(n, element_of(node.inputs[1], e))
                                                   : words_unit(n, ""));
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
  if (node.op == "chunk") {
    for (const std::uint32_t text : values_[node.inputs.front()]) {
      for (std::string& piece : chunks_of(units_[text].text, node))
        made.push_back(add({.node = n, .text = std::move(piece)}));
    }
    return;
  }
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
      unit.seed = begun           ? units_[unit.inputs.front()].seed
                  : seeds.empty() ? host_.new_seed()
                                  : seeds[e % each];
      const std::uint32_t cond = node.inputs.back();
      if (node.rows == 2) {
        const auto& no = negatives_[cond];
        unit.inputs.push_back(no.empty() ? unit.inputs.back() : no[from % no.size()]);
      }
    } else if (node.op == "ask") {
      unit.seed = seeds.empty() ? host_.new_seed() : seeds.front();
    } else if (node.op == "decode" || node.op == "latent") {
      unit.passes = 1;
    } else if (node.op == "out") {
      unit.index = files_++;
    } else if (node.op == "keep") {
      unit.index = kept_++;
    } else if (node.op == "lat") {
      if (const auto kept = latents_.find(std::string(argument(node.at_run, "id")));
          kept != latents_.end()) {
        unit.latent = kept->second;
        unit.seed = kept->second->seed;
      }
    }
    if (!node.value_key.empty() && unit.passes > 0)
      unit.key = fmt::format("{}:{}", node.value_key, e);
    made.push_back(add(std::move(unit)));
  }
}

}  // namespace lares::server
