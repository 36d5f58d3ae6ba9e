#include "text/llama/chat_json.h"

#include <fmt/format.h>

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

}  // namespace

Result<common_chat_templates_inputs> chat_inputs(const RenderChat& chat, const ControlGuard& guard,
                                                 const common_chat_templates* templates) {
  common_chat_templates_inputs inputs;
  const common_json messages = TRY(guarded(chat.messages, guard, "messages"));
  TRY_VOID(check_messages(messages));
  inputs.messages = common_chat_msgs_parse_oaicompat(messages);
  if (!chat.tools.empty()) {
    inputs.tools = common_chat_tools_parse_oaicompat(TRY(guarded(chat.tools, guard, "tools")));
  }
  if (!chat.options.empty()) TRY_VOID(read_options(chat.options, guard, inputs));
  inputs.add_generation_prompt = chat.add_generation_prompt;
  inputs.use_jinja = true;
  const auto caps = common_chat_templates_get_caps(templates);
  const auto parallel = caps.find("supports_parallel_tool_calls");
  inputs.parallel_tool_calls = parallel != caps.end() && parallel->second;
  return inputs;
}

}  // namespace lares::text
