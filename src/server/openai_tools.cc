#include "server/openai_tools.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

using json::Fields;
using json::Problem;
using json::Value;
using text::ToolChoice;

bool is_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kToolNameBytesMax && std::ranges::all_of(name, good);
}

const std::string* read_name(const Fields& function) {
  const std::string* name = function.string("name");
  if (name == nullptr) {
    function.note("name", "is required");
  } else if (!is_name(*name)) {
    function.note("name", fmt::format("must be 1 to {} letters, digits or any of _ - . : /",
                                      kToolNameBytesMax));
  }
  return name;
}

// {"type":"function","function":{...}} -> the inner object. Anything else is noted.
const Value* function_of(const Fields& tool) {
  const std::string* type = tool.string("type");
  if (type != nullptr && *type != "function") {
    tool.note("type", fmt::format("must be \"function\": this server runs no `{}` tools",
                                  utf8_sanitised(*type)));
    return nullptr;
  }
  const Value* function = tool.find("function");
  if (function == nullptr) tool.note("function", "is required");
  return function;
}

Value read_tool(const Value& value, const std::string& path, Problem& problem,
                std::set<std::string>& names) {
  json::Object out;
  const Fields tool(value, path, problem);
  const Value* inner = function_of(tool);
  if (inner == nullptr) return out;
  const Fields function(*inner, tool.path("function"), problem);
  const std::string* name = read_name(function);
  const std::string* description = function.string("description");
  const json::Object* parameters = function.object("parameters");
  if (problem || name == nullptr) return out;
  if (!names.insert(*name).second) {
    function.note("name", fmt::format("`{}` is there already: names must differ", *name));
  }
  json::Object copy;
  add_member(copy, "name", Value(*name));
  if (description != nullptr) add_member(copy, "description", Value(*description));
  if (parameters != nullptr) add_member(copy, "parameters", Value(*parameters));
  add_member(out, "type", Value("function"));
  add_member(out, "function", Value(std::move(copy)));
  return out;
}

std::set<std::string> read_tools(const Fields& body, Problem& problem, ChatPrompt& out) {
  std::set<std::string> names;
  const json::Array* tools = body.array("tools");
  if (tools == nullptr || tools->empty()) return names;
  if (tools->size() > kToolsMax) {
    body.note("tools", fmt::format("must hold at most {} tools, not {}", kToolsMax, tools->size()));
    return names;
  }
  json::Array normalised;
  for (std::size_t i = 0; i < tools->size() && !problem; ++i) {
    normalised.push_back(read_tool((*tools)[i], fmt::format("tools[{}]", i), problem, names));
  }
  if (!problem) json::append(out.tools, Value(std::move(normalised)));
  return names;
}

// {"type":"function","function":{"name":"x"}}
void read_named_choice(const Fields& body, const Value& choice, Problem& problem,
                       const std::set<std::string>& names, ChatPrompt& out) {
  const Fields fields(choice, "tool_choice", problem);
  const Value* inner = function_of(fields);
  if (inner == nullptr) return;
  const std::string* name = Fields(*inner, "tool_choice.function", problem).string("name");
  if (problem) return;
  if (name == nullptr || !names.contains(*name)) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    return body.note("tool_choice",
                     name == nullptr
                         ? std::string("must name a function")
                         : fmt::format("names `{}`, which is not among `tools`.{}",
                                       utf8_sanitised(*name), suggestion(*name, known)));
  }
  out.tool_choice = ToolChoice::Required;
  out.tool_name = *name;
}

void read_choice(const Fields& body, Problem& problem, const std::set<std::string>& names,
                 ChatPrompt& out) {
  const Value* choice = body.find("tool_choice");
  if (choice == nullptr) return;
  const auto* word = choice->as<std::string>();
  if (word == nullptr) return read_named_choice(body, *choice, problem, names, out);
  if (*word == "auto") return;
  if (*word == "none") {
    out.tool_choice = ToolChoice::None;
  } else if (*word == "required") {
    if (names.empty()) return body.note("tool_choice", "\"required\" needs `tools`");
    out.tool_choice = ToolChoice::Required;
  } else {
    body.note("tool_choice", "must be \"auto\", \"none\", \"required\" or a function to call");
  }
}

// The schema that the answer must fit, as text; "" for plain text.
void read_response_format(const Fields& body, Problem& problem, ChatPrompt& out) {
  const Value* format = body.find("response_format");
  if (format == nullptr) return;
  const Fields fields(*format, "response_format", problem);
  const std::string* type = fields.string("type");
  if (problem) return;
  if (type == nullptr) return fields.note("type", "is required");
  if (*type == "text") return;
  if (*type == "json_object") {
    const json::Object* schema = fields.object("schema");  // llama.cpp's way.
    out.schema = schema != nullptr && !schema->empty() ? json::to_text(Value(*schema))
                                                       : R"({"type":"object"})";
  } else if (*type == "json_schema") {
    const Value* inner = fields.find("json_schema");
    if (inner == nullptr) return fields.note("json_schema", "is required");
    const Fields named(*inner, "response_format.json_schema", problem);
    const json::Object* schema = named.object("schema");
    if (problem) return;
    if (schema == nullptr) return named.note("schema", "is required");
    // What says nothing about the answer still asks for JSON.
    out.schema = schema->empty() ? R"({"type":"object"})" : json::to_text(Value(*schema));
  } else {
    fields.note("type", "must be text, json_object or json_schema");
  }
}

// "none" switches thinking off; any other word goes to the template, which may know it.
void read_effort(const Fields& body, ChatPrompt& out) {
  const std::string* effort = body.string("reasoning_effort");
  if (effort == nullptr) return;
  json::Object options;
  if (const json::Object* given = body.object("chat_template_kwargs")) options = *given;
  if (*effort == "none") {
    add_member(options, "enable_thinking", Value(false));
  } else {
    add_member(options, "reasoning_effort", Value(*effort));
  }
  out.options = json::to_text(Value(std::move(options)));
}

}  // namespace

void add_member(json::Object& out, std::string_view name, Value value) {
  json::Member member(std::string(name), std::move(value));
  out.push_back(std::move(member));
}

void read_answer_form(const Fields& body, Problem& problem, ChatPrompt& out) {
  const std::set<std::string> names = read_tools(body, problem, out);
  if (problem) return;
  read_choice(body, problem, names, out);
  out.parallel_tool_calls = body.boolean("parallel_tool_calls");
  read_response_format(body, problem, out);
  read_effort(body, out);
}

json::Array read_tool_calls(const json::Array& calls, const std::string& path, Problem& problem) {
  json::Array out;
  if (calls.size() > kCallsMax) {
    problem = {path,
               fmt::format("{} must hold at most {} calls, not {}", path, kCallsMax, calls.size())};
    return out;
  }
  for (std::size_t i = 0; i < calls.size() && !problem; ++i) {
    const Fields call(calls[i], fmt::format("{}[{}]", path, i), problem);
    const Value* inner = function_of(call);
    if (inner == nullptr) break;
    const Fields function(*inner, call.path("function"), problem);
    const std::string* name = read_name(function);
    const std::string* id = call.string("id");
    const Value* arguments = function.find("arguments");
    if (problem || name == nullptr) break;
    std::string text = "{}";
    if (arguments != nullptr && arguments->as<json::Object>() != nullptr) {
      text = json::to_text(*arguments);
    } else if (arguments != nullptr) {
      const auto* given = arguments->as<std::string>();
      const auto parsed = json::parse(given == nullptr ? "" : given->empty() ? "{}" : *given);
      if (!parsed || parsed->as<json::Object>() == nullptr) {
        function.note("arguments", "must be the text of a JSON object");
        break;
      }
      if (!given->empty()) text = *given;
    }
    json::Object copy;
    add_member(copy, "name", Value(*name));
    add_member(copy, "arguments", Value(std::move(text)));
    json::Object one;
    if (id != nullptr) add_member(one, "id", Value(*id));
    add_member(one, "type", Value("function"));
    add_member(one, "function", Value(std::move(copy)));
    out.emplace_back(std::move(one));
  }
  return out;
}

}  // namespace lares::server
