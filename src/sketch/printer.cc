#include "sketch/printer.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"
#include "sketch/signature.h"
#include "sketch/unicode.h"

namespace lares::sketch {
namespace {

constexpr std::size_t kWidth = 100;

// A model's name, quoted where it would be read as something else.
std::string model_text(const std::string& name) {
  const bool dtype = std::ranges::find(dtypes(), name) != dtypes().end();
  return is_word(name) && !dtype && reserved_as(name).empty() ? name : quoted(name);
}

std::string arguments_text(const std::vector<Argument>& arguments) {
  std::string out;
  for (const Argument& argument : arguments) {
    out += ' ';
    if (!argument.key.empty()) out += argument.key + ' ';
    out += print(argument.value);
  }
  return out;
}

std::string stage_text(const Stage& stage) {
  return stage.name + arguments_text(stage.arguments);
}

// The parts between the bars.
std::vector<std::string> parts_of(const Flow& flow) {
  std::vector<std::string> parts;
  if (flow.source) parts.push_back(print(*flow.source));
  for (const Stage& stage : flow.stages) parts.push_back(stage_text(stage));
  return parts;
}

// `head` and the parts with bars between, over several lines if one would be too long.
std::string laid_out(const std::string& head, const std::vector<std::string>& parts,
                     std::string_view tail) {
  std::string line = head + fmt::format("{}", fmt::join(parts, " | ")) + std::string(tail);
  if (parts.size() < 2 || columns_of(line) <= kWidth) return line;
  return head + fmt::format("{}", fmt::join(parts, "\n  | ")) + std::string(tail);
}

struct LinePrinter {
  std::string operator()(const Comment& comment) const { return '#' + comment.text; }

  std::string operator()(const Use& use) const {
    std::string out = "use " + model_text(use.model);
    if (use.at) out += " at " + use.at->text();
    if (use.fit) out += fmt::format(" at fit {} {}", *use.fit, use.fit_name);
    if (!use.dtype.empty()) out += ' ' + use.dtype;
    return out;
  }

  std::string operator()(const In& in) const {
    std::string out = fmt::format("in {} : {}", in.name, print(in.type));
    if (in.initial) out += " = " + print(*in.initial);
    return out;
  }

  std::string operator()(const Bind& bind) const {
    std::string head = bind.name;
    if (bind.type) head += " : " + print(*bind.type);
    return laid_out(head + " = ", parts_of(bind.flow), "");
  }

  std::string operator()(const Out& out) const {
    const std::string medium = out.medium + arguments_text(out.arguments);
    if (out.flow.stages.empty()) return fmt::format("out {} {}", print(*out.flow.source), medium);
    std::vector<std::string> parts = parts_of(out.flow);
    parts.push_back("out " + medium);
    return laid_out("", parts, "");
  }

  std::string operator()(const Keep& keep) const {
    return fmt::format("keep {} {}", keep.name, keep.duration.text());
  }

  std::string operator()(const Want& want) const {
    std::string out = "want";
    for (const Wish& wish : want.wishes) {
      out += ' ' + wish.word;
      if (wish.limit) out += ' ' + wish.limit->text();
    }
    return out;
  }
};

}  // namespace

std::string quoted(std::string_view raw) {
  std::string out = "\"";
  for (const char c : raw) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string print(const Value& value) {
  switch (value.kind) {
    case Value::Kind::Word: return value.text;
    case Value::Kind::Text: return quoted(value.text);
    case Value::Kind::Number: return value.number.text();
    case Value::Kind::Size: return value.size.text();
    case Value::Kind::Handle: return "lat:" + value.text;
    case Value::Kind::Flow: return '(' + print(value.flow.front()) + ')';
    case Value::Kind::List: break;
  }
  std::string out = "[";
  for (const Value& item : value.items) {
    if (out.size() > 1) out += ' ';
    out += print(item);
  }
  return out + ']';
}

std::string print(const Flow& flow) {
  return fmt::format("{}", fmt::join(parts_of(flow), " | "));
}

std::string print(const TypeNote& type) {
  std::string out(type.lists, '[');
  out += type.kind;
  if (!type.what.empty()) out += ' ' + model_text(type.what);
  if (type.size) out += ' ' + type.size->text();
  if (type.count) out += fmt::format(" {}", *type.count);
  if (!type.dtype.empty()) out += ' ' + type.dtype;
  if (type.clean) out += " clean";
  if (type.at) out += fmt::format(" at {}/{}", type.at->width, type.at->height);
  return out + std::string(type.lists, ']');
}

std::string print(const Sketch& sketch) {
  std::string out;
  for (const Line& line : sketch.lines) {
    if (line.gap) out += '\n';
    out += std::visit(LinePrinter{}, line.what);
    if (line.comment) out += "  #" + *line.comment;
    out += '\n';
  }
  return out;
}

}  // namespace lares::sketch
