#include "server/sketch_support.h"

#include <algorithm>

#include <fmt/format.h>

#include "server/sketch_text.h"

namespace lares::server {
namespace {

using sketch::Node;
using Kind = sketch::Type::Kind;

bool takes_list(const sketch::Plan& plan, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](std::uint32_t i) { return plan.nodes[i].type.list; });
}

// By node, whether it is made of kept latents and nothing else: no pass brings its model.
std::vector<bool> kept_alone(const sketch::Plan& plan) {
  std::vector<bool> alone(plan.nodes.size());
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    const Node& node = plan.nodes[n];
    const bool made = node.type.kind == Kind::Latent && node.model.empty();
    alone[n] = made && std::ranges::all_of(node.inputs, [&](std::uint32_t i) { return alone[i]; });
  }
  return alone;
}

// Whether a text is what a model writes, or holds such.
bool is_written(const sketch::Plan& plan, std::uint32_t index) {
  const Node& node = plan.nodes[index];
  if (node.op != "list") return node.op == "ask";
  return std::ranges::any_of(node.inputs,
                             [&](std::uint32_t i) { return plan.nodes[i].op == "ask"; });
}

std::string why_not_kept(const sketch::Plan& plan, const Node& node) {
  const Node& from = plan.nodes[node.inputs.front()];
  if (node.type.kind != Kind::Latent)
    return fmt::format("only latents are kept so far, not {}", node.type.text());
  if (from.type.noise && !argument(from.at_run, "from").empty())
    return "what began `from` a latent is kept once it is finished";
  return "";
}

std::string why_not(const sketch::Plan& plan, const Node& node) {
  const std::string_view medium = argument(node.at_run, "medium");
  if (node.op == "keep") return why_not_kept(plan, node);
  if (node.op == "out" && medium != "png" && medium != "txt" && medium != "json" &&
      (medium != "npy" || node.type.kind != Kind::Embedding)) {
    return fmt::format("`out ... {}` of {} is not carried out yet; write {}", medium,
                       kind_text(node.type.kind),
                       node.type.kind == Kind::Cond ? "a picture of it" : "png, txt, json or npy");
  }
  if (node.op == "chunk" && is_written(plan, node.inputs.front()))
    return "`chunk` takes a text that is there before the sketch runs, not one that `ask` writes";
  if (node.op == "resize" && node.type.kind == Kind::Pixels)
    return "pixels are not resized yet; resize the latent";
  if (node.op == "walk" && takes_list(plan, node)) return "`walk` takes two single latents so far";
  if (node.op == "input" && node.type.kind == Kind::Json) return "JSON inputs are not taken yet";
  if (node.op != "sample" || node.inputs.size() < 2) return "";
  const Node& from = plan.nodes[node.inputs.front()];
  if (!from.type.noise) return "";
  if (from.op != "sample" && from.op != "lat")
    return "only what `sample` left off is carried on so far";
  if (!argument(from.at_run, "from").empty())
    return "what began `from` a latent is not carried on after `until` yet";
  return "";
}

}  // namespace

std::string_view argument(const sketch::Pairs& pairs, std::string_view name) {
  const auto found = std::ranges::find(pairs, name, [](const auto& pair) { return pair.first; });
  return found == pairs.end() ? std::string_view() : std::string_view(found->second);
}

std::string words_key(const std::string& scope, const std::string& model, const std::string& text) {
  return sketch::digest_of(fmt::format("words\n{}\n{}\n{}", scope, model, text));
}

std::vector<std::string> models_of(const sketch::Plan& plan) {
  std::vector<std::string> models(plan.nodes.size());
  for (std::size_t n = plan.nodes.size(); n-- > 0;) {
    const Node& node = plan.nodes[n];
    if (!node.model.empty()) models[n] = node.model;
    if (models[n].empty()) models[n] = node.type.model;
    if (node.op == "out" || node.op == "keep" || models[n].empty()) continue;
    for (const std::uint32_t input : node.inputs) {
      const Node& from = plan.nodes[input];
      if (from.type.kind == Kind::Latent && from.model.empty()) models[input] = models[n];
    }
  }
  return models;
}

std::optional<std::string> too_many_chunks(const sketch::Plan& plan,
                                           const std::vector<SketchInput>& inputs) {
  std::size_t chunks = 0;
  for (const Node& node : plan.nodes) {
    if (node.op != "chunk") continue;
    const Node& from = plan.nodes[node.inputs.front()];
    const auto given = std::ranges::find(inputs, argument(from.at_run, "name"), &SketchInput::name);
    if (from.op != "input" || given == inputs.end()) continue;  // As long as a sketch may be.
    for (const std::string& text : given->texts) {
      chunks += chunks_of(text, node).size();
      if (chunks > kChunksMax) {
        return fmt::format(
            "line {}, column {}: that would be more than {} chunks; make them larger",
            node.place.line, node.place.column, kChunksMax);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> cannot_run(const sketch::Plan& plan) {
  const std::vector<std::string> models = models_of(plan);
  const std::vector<bool> alone = kept_alone(plan);
  for (std::size_t n = 0; n < plan.nodes.size(); ++n) {
    const Node& node = plan.nodes[n];
    std::string why = why_not(plan, node);
    if (why.empty() && node.op == "keep" && alone[node.inputs.front()])
      why = "what is made of kept latents alone is not kept again; `sample` it first";
    for (const std::uint32_t input : node.inputs) {
      const bool latent = plan.nodes[input].type.kind == Kind::Latent;
      if (!why.empty() || !latent || models[input] == models[n] || node.op == "keep") continue;
      why = fmt::format("a latent is with {} and is wanted by {}; name one of them in `use`",
                        models[input], models[n]);
    }
    if (!why.empty())
      return fmt::format("line {}, column {}: {}", node.place.line, node.place.column, why);
  }
  return std::nullopt;
}

}  // namespace lares::server
