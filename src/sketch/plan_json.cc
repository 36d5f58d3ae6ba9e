#include <fmt/format.h>

#include "core/text.h"
#include "sketch/plan.h"

namespace lares::sketch {
namespace {

// `"name":"text"`, null for nothing.
std::string member(std::string_view name, const std::string& text) {
  return fmt::format("\"{}\":{}", name, text.empty() ? "null" : json_quoted(text));
}

std::string pairs_json(const Pairs& pairs) {
  std::string out;
  for (const auto& [key, text] : pairs) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", json_quoted(key), json_quoted(text));
  }
  return '{' + out + '}';
}

// Nanoseconds as seconds, exactly.
std::string seconds_json(const std::optional<Duration>& duration) {
  if (!duration) return "null";
  return fmt::format("{}.{:09}", duration->count() / 1000000000, duration->count() % 1000000000);
}

std::string node_json(const Node& node) {
  std::string notes;
  for (const Note& note : node.notes) {
    notes += fmt::format("{}{{\"code\":\"{}\",\"text\":{}}}", notes.empty() ? "" : ",",
                         check_name(note.check), json_quoted(note.text));
  }
  return fmt::format(
      "{{\"op\":\"{}\",{},\"type\":{},\"inputs\":[{}],{},{},\"fixed\":{},\"at_run\":{},{},{},{},"
      "\"cached\":{},\"needed\":{},\"price_s\":{},\"memory_bytes\":{},\"line\":{},\"column\":{},"
      "\"notes\":[{}]}}",
      node.op, member("name", node.name), json_quoted(node.type.text()),
      fmt::join(node.inputs, ","), member("model", node.model), member("dtype", node.dtype),
      pairs_json(node.fixed), pairs_json(node.at_run), member("batch_key", node.batch_key),
      member("value_key", node.value_key), member("no_key", node.no_key), node.cached, node.needed,
      seconds_json(node.price), node.memory.count, node.place.line, node.place.column, notes);
}

}  // namespace

std::string to_json(const Plan& plan) {
  std::string nodes;
  for (const Node& node : plan.nodes) nodes += (nodes.empty() ? "" : ",") + node_json(node);
  std::string choices;
  for (const Choice& choice : plan.choices) {
    choices +=
        fmt::format("{}{{{},{},{}}}", choices.empty() ? "" : ",", member("what", choice.what),
                    member("model", choice.model), member("why", choice.why));
  }
  std::string unmeasured;
  for (const std::string& what : plan.unmeasured) {
    unmeasured += (unmeasured.empty() ? "" : ",") + json_quoted(what);
  }
  return fmt::format(
      "{{\"nodes\":[{}],\"choices\":[{}],\"key\":\"{}\",\"exact\":{},\"approx\":{},"
      "\"price\":{{\"seconds\":{},\"unmeasured\":[{}],\"memory_bytes\":{}}}}}",
      nodes, choices, plan.key, plan.exact, plan.approx, seconds_json(plan.price), unmeasured,
      plan.memory.count);
}

std::string to_json(const Problems& problems) {
  std::string out;
  for (const Problem& problem : problems) {
    out += fmt::format("{}{{\"code\":\"{}\",\"line\":{},\"column\":{},\"message\":{}}}",
                       out.empty() ? "" : ",", check_name(problem.check), problem.place.line,
                       problem.place.column, json_quoted(problem.message));
  }
  return fmt::format("{{\"errors\":[{}]}}", out);
}

}  // namespace lares::sketch
