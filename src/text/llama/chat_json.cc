#include "text/llama/chat_json.h"

#include <fmt/format.h>

#include "text/llama/schema_check.h"

namespace lares::text {
namespace {

// Deeper JSON than any real tool schema; the functions below call themselves once a level.
constexpr int kDepthMax = 64;

Result<common_json> parse(const std::string& text, std::string_view what) {
  common_json value = common_json::parse_no_throw(text);
  if (value.is_discarded()) return fail(Code::Invalid, fmt::format("{} are not valid JSON", what));
  return value;
}

// Hides control tokens in every string. `arguments` of a tool call is JSON inside a string, in
// which an escape could stand for any letter: it is parsed, guarded and written again.
Result<> guard_strings(common_json& value, const ControlGuard& guard, std::string_view what,
                       int depth) {
  if (depth > kDepthMax) {
    return fail(Code::Invalid, fmt::format("{} are nested more than {} deep", what, kDepthMax));
  }
  if (value.is_string()) {
    value = guard.hide(value.get<std::string>());
    return {};
  }
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      TRY_VOID(guard_strings(value.at(i), guard, what, depth + 1));
    }
    return {};
  }
  if (!value.is_object()) return {};
  for (const auto& entry : value.items()) {
    if (entry.key() == "arguments" && entry.value().is_string()) {
      common_json inner = common_json::parse_no_throw(entry.value().get<std::string>());
      if (!inner.is_discarded()) {
        TRY_VOID(guard_strings(inner, guard, what, depth + 1));
        entry.value() = inner.dump();
        continue;
      }
    }
    TRY_VOID(guard_strings(entry.value(), guard, what, depth + 1));
  }
  return {};
}

Result<common_json> guarded(const std::string& text, const ControlGuard& guard,
                            std::string_view what) {
  common_json value = TRY(parse(text, what));
  TRY_VOID(guard_strings(value, guard, what, 0));
  return value;
}

Result<> check_messages(const common_json& messages) {
  if (!messages.is_array() || messages.empty()) {
    return fail(Code::Invalid, "messages must be an array with at least one message");
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const common_json& message = messages.at(i);
    if (!message.is_object())
      return fail(Code::Invalid, fmt::format("messages[{}] is no object", i));
    if (!message.contains("role") || !message.at("role").is_string()) {
      return fail(Code::Invalid, fmt::format("messages[{}] has no role", i));
    }
  }
  return {};
}

Result<> read_options(const std::string& text, const ControlGuard& guard,
                      common_chat_templates_inputs& inputs) {
  const common_json options = TRY(guarded(text, guard, "chat_template_kwargs"));
  if (!options.is_object()) return fail(Code::Invalid, "chat_template_kwargs must be an object");
  for (const auto& entry : options.items()) {
    inputs.chat_template_kwargs[entry.key()] = entry.value().dump();
    if (entry.key() != "enable_thinking") continue;
    if (!entry.value().is_boolean()) {
      return fail(Code::Invalid, "chat_template_kwargs.enable_thinking must be true or false");
    }
    inputs.enable_thinking = entry.value().get<bool>();
  }
  return {};
}

// The tools with their schemas looked over; with a tool that must be called, that one alone.
Result<std::vector<common_chat_tool>> read_tools(const RenderChat& chat,
                                                 const ControlGuard& guard) {
  common_json tools = TRY(guarded(chat.tools, guard, "tools"));
  if (!tools.is_array()) return fail(Code::Invalid, "tools must be an array");
  const std::string wanted = guard.hide(chat.tool_name);
  common_json used = common_json::array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    common_json& tool = tools.at(i);
    if (!tool.is_object() || !tool.contains("function") || !tool.at("function").is_object() ||
        !tool.at("function").contains("name") || !tool.at("function").at("name").is_string()) {
      return fail(Code::Invalid, fmt::format("tools[{}] is no function with a name", i));
    }
    common_json& function = tool.at("function");
    if (function.contains("parameters") && !function.at("parameters").is_null()) {
      TRY_VOID(check_schema(function.at("parameters"),
                            fmt::format("tools[{}].function.parameters", i), SchemaUse::Tool));
    } else {
      function["parameters"] =
          common_json{{"type", "object"}, {"properties", common_json::object()}};
    }
    if (chat.tool_name.empty() || function.at("name").get<std::string>() == wanted) {
      used.push_back(tool);
    }
  }
  if (used.empty()) {
    return fail(Code::Invalid, fmt::format("tool_choice names `{}`, which is not among the tools",
                                           chat.tool_name));
  }
  return common_chat_tools_parse_oaicompat(used);
}

// Refuses what the template would silently leave out.
Result<> check_template(const common_chat_templates_inputs& inputs,
                        const std::map<std::string, bool>& can) {
  const auto able = [&](const char* what) {
    const auto found = can.find(what);
    return found != can.end() && found->second;
  };
  if (inputs.tools.empty() || able("supports_tools") || able("supports_tool_calls")) return {};
  return fail(Code::Unsupported,
              "this model's chat template knows no tools: leave `tools` out or choose a model that "
              "can call them");
}

}  // namespace

Result<common_chat_templates_inputs> chat_inputs(const RenderChat& chat, const ControlGuard& guard,
                                                 const common_chat_templates* templates) {
  common_chat_templates_inputs inputs;
  const common_json messages = TRY(guarded(chat.messages, guard, "messages"));
  TRY_VOID(check_messages(messages));
  inputs.messages = common_chat_msgs_parse_oaicompat(messages);
  if (!chat.tools.empty()) inputs.tools = TRY(read_tools(chat, guard));
  if (!chat.schema.empty()) {
    common_json schema = TRY(guarded(chat.schema, guard, "response_format"));
    TRY_VOID(check_schema(schema, "response_format.json_schema.schema", SchemaUse::Answer));
    inputs.json_schema = schema.dump();
  }
  if (!chat.options.empty()) TRY_VOID(read_options(chat.options, guard, inputs));
  inputs.add_generation_prompt = chat.add_generation_prompt;
  inputs.use_jinja = true;
  const auto caps = common_chat_templates_get_caps(templates);
  TRY_VOID(check_template(inputs, caps));
  const auto parallel = caps.find("supports_parallel_tool_calls");
  inputs.parallel_tool_calls =
      chat.parallel_tool_calls.value_or(parallel != caps.end() && parallel->second);
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  switch (chat.tool_choice) {
    case ToolChoice::Auto: inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_AUTO; break;
    case ToolChoice::Required: inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_REQUIRED; break;
    case ToolChoice::None: inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE; break;
  }
  return inputs;
}

}  // namespace lares::text
