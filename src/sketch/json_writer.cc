#include <fmt/format.h>

#include "core/text.h"
#include "sketch/json_form.h"
#include "sketch/printer.h"

namespace lares::sketch {
namespace {

std::string flow_json(const Flow& flow);

std::string size_json(const Size& size) {
  return fmt::format("[{},{}]", size.width, size.height);
}

std::string value_json(const Value& value) {
  switch (value.kind) {
    case Value::Kind::Word: return fmt::format("{{\"name\":{}}}", json_quoted(value.text));
    case Value::Kind::Text: return json_quoted(value.text);
    case Value::Kind::Number:
      if (value.number.unit == Unit::None) return value.number.text();
      return fmt::format("{{\"unit\":\"{}\"}}", value.number.text());
    case Value::Kind::Size: return fmt::format("{{\"size\":{}}}", size_json(value.size));
    case Value::Kind::Handle: return fmt::format("{{\"lat\":{}}}", json_quoted(value.text));
    case Value::Kind::Flow: return fmt::format("{{\"flow\":{}}}", flow_json(value.flow.front()));
    case Value::Kind::List: break;
  }
  std::string out = "[";
  for (const Value& item : value.items) {
    if (out.size() > 1) out += ',';
    out += value_json(item);
  }
  return out + ']';
}

std::string args_json(const std::vector<Argument>& arguments) {
  if (arguments.empty()) return "";
  std::string out;
  for (const Argument& argument : arguments) {
    if (!out.empty()) out += ',';
    out += argument.key.empty()
               ? value_json(argument.value)
               : fmt::format("{{\"key\":{},\"value\":{}}}", json_quoted(argument.key),
                             value_json(argument.value));
  }
  return fmt::format(",\"args\":[{}]", out);
}

std::string flow_json(const Flow& flow) {
  std::string out = "[";
  if (flow.source) out += value_json(*flow.source);
  for (const Stage& stage : flow.stages) {
    if (out.size() > 1) out += ',';
    out += fmt::format("{{\"stage\":{}{}}}", json_quoted(stage.name), args_json(stage.arguments));
  }
  return out + ']';
}

struct LineWriter {
  std::string operator()(const Comment& comment) const {
    return "\"comment\":" + json_quoted(comment.text);
  }

  std::string operator()(const Use& use) const {
    std::string out = "\"use\":" + json_quoted(use.model);
    if (use.at) out += ",\"at\":" + size_json(*use.at);
    if (use.fit) out += fmt::format(",\"fit\":{},\"name\":{}", *use.fit, json_quoted(use.fit_name));
    if (!use.dtype.empty()) out += ",\"dtype\":" + json_quoted(use.dtype);
    return out;
  }

  std::string operator()(const In& in) const {
    std::string out =
        fmt::format("\"in\":{},\"type\":{}", json_quoted(in.name), json_quoted(print(in.type)));
    if (in.initial) out += ",\"initial\":" + value_json(*in.initial);
    return out;
  }

  std::string operator()(const Bind& bind) const {
    std::string out = "\"bind\":" + json_quoted(bind.name);
    if (bind.type) out += ",\"type\":" + json_quoted(print(*bind.type));
    return out + ",\"flow\":" + flow_json(bind.flow);
  }

  std::string operator()(const Out& out) const {
    return fmt::format("\"out\":{},\"medium\":{}{}", flow_json(out.flow), json_quoted(out.medium),
                       args_json(out.arguments));
  }

  std::string operator()(const Keep& keep) const {
    return fmt::format("\"keep\":{},\"for\":\"{}\"", json_quoted(keep.name), keep.duration.text());
  }

  std::string operator()(const Want& want) const {
    std::string out;
    for (const Wish& wish : want.wishes) {
      if (!out.empty()) out += ',';
      out += wish.limit ? fmt::format("{{\"{}\":\"{}\"}}", wish.word, wish.limit->text())
                        : json_quoted(wish.word);
    }
    return fmt::format("\"want\":[{}]", out);
  }
};

}  // namespace

std::string to_json(const Sketch& sketch) {
  std::string out = "{\"sketch\":1,\"lines\":[";
  bool first = true;
  for (const Line& line : sketch.lines) {
    out += first ? "{" : ",{";
    first = false;
    out += std::visit(LineWriter{}, line.what);
    if (line.gap) out += ",\"gap\":true";
    if (line.comment) out += ",\"note\":" + json_quoted(*line.comment);
    out += '}';
  }
  return out + "]}";
}

}  // namespace lares::sketch
