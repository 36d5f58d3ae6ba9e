#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/text.h"
#include "sketch/plan.h"

namespace lares::sketch {
namespace {

constexpr std::size_t kColumns = 7;
using Row = std::array<std::string, kColumns>;

std::string arguments_text(const Node& node) {
  std::string out;
  for (const Pairs* pairs : {&node.fixed, &node.at_run}) {
    for (const auto& [key, text] : *pairs) {
      if (key == "name" || key == "digest" || (key == "cfg" && pairs == &node.fixed)) continue;
      if (!out.empty()) out += ' ';
      out += key == "text" ? json_quoted(text) : fmt::format("{} {}", key, text);
    }
  }
  // Long texts are of no use in a table.
  constexpr std::size_t kLongest = 48;
  if (columns_of(out) <= kLongest) return out;
  return out.substr(0, utf8_complete_prefix(out.substr(0, kLongest))) + "...";
}

std::string cost_text(const Node& node) {
  if (node.cached) return "cached";
  if (!node.needed) return "not used";
  if (node.op == "out" || node.op == "keep" || node.model.empty()) return "";
  return node.price ? format_duration(*node.price) : "not measured";
}

std::string inputs_text(const Node& node) {
  std::string out;
  for (const std::uint32_t input : node.inputs)
    out += fmt::format("{}#{}", out.empty() ? "" : " ", input);
  return out;
}

void append_table(std::string& out, const std::vector<Row>& rows) {
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) {
      line += row[i] + std::string(widths[i] - columns_of(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
}

std::string note_lines(const Plan& plan, std::size_t index) {
  const Node& node = plan.nodes[index];
  std::string out;
  const auto note = [&](std::string_view check, std::string_view text) {
    out += fmt::format("{} #{}: {}\n", check, index, text);
  };
  if (!node.batch_key.empty()) note("Q1", "batch " + node.batch_key);
  if (!node.value_key.empty()) note("C2", "key " + node.value_key.substr(0, 12));
  if (!node.no_key.empty()) note("C2", "no cache key: " + node.no_key);
  for (const Note& n : node.notes) note(check_name(n.check), n.text);
  if (node.resumes_at != 0) note("C2", fmt::format("goes on after step {}", node.resumes_at));
  return out;
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::vector<Row> rows{{"", "name", "stage", "from", "type", "price", "arguments"}};
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const Node& node = plan.nodes[i];
    rows.push_back({fmt::format("#{}", i), node.name, node.op, inputs_text(node), node.type.text(),
                    cost_text(node), arguments_text(node)});
  }
  std::string out;
  append_table(out, rows);
  out += '\n';
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) out += note_lines(plan, i);
  for (const Choice& choice : plan.choices) {
    out += fmt::format("E1 {}: {} ({})\n", choice.what, choice.model, choice.why);
  }
  if (plan.exact) out += "D1 exact: in no batch with others\n";
  if (plan.approx) out += "D1 approx: steps may be reused, and the record says so\n";
  const bool measured = plan.price > Duration(0) || plan.unmeasured.empty();
  out += "E1 price: " + (measured ? format_duration(plan.price) : std::string());
  if (!plan.unmeasured.empty()) {
    out += fmt::format("{}not measured yet: {}", measured ? ", and what is " : "",
                       fmt::join(plan.unmeasured, ", "));
  }
  if (plan.memory.count > 0) out += fmt::format("; memory {}", format_bytes(plan.memory.count));
  return out + fmt::format("\nplan {}\n", plan.key.substr(0, 12));
}

}  // namespace lares::sketch
