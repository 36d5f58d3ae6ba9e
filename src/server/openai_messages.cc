#include "server/openai_messages.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/text.h"
#include "server/openai_request.h"
#include "server/openai_tools.h"

namespace lares::server {
namespace {

using json::Fields;
using json::Problem;
using json::Value;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

// One part of a content that is an array. Texts are joined without anything between, as OpenAI
// does.
void append_part(const Value& part, const std::string& path, Problem& problem, std::string& out) {
  const Fields fields(part, path, problem);
  const std::string* type = fields.string("type");
  if (type == nullptr) return fields.note("type", "is required");
  if (*type != "text" && *type != "input_text" && *type != "refusal") {
    return fields.note("type", fmt::format("must be \"text\": this server reads no `{}` parts",
                                           utf8_sanitised(*type)));
  }
  const std::string* text = fields.string(*type == "refusal" ? "refusal" : "text");
  if (text == nullptr) return fields.note("text", "is required");
  out += *text;
}

std::string read_content(const Fields& message, Problem& problem, bool required) {
  const Value* content = message.find("content");
  if (content == nullptr) {
    if (required) message.note("content", "is required: a string or an array of text parts");
    return "";
  }
  if (const auto* text = content->as<std::string>()) return *text;
  const auto* parts = content->as<json::Array>();
  if (parts == nullptr) {
    message.note("content", fmt::format("must be a string or an array of text parts, not {}",
                                        json::kind_name(*content)));
    return "";
  }
  std::string out;
  for (std::size_t i = 0; i < parts->size() && !problem; ++i) {
    append_part((*parts)[i], fmt::format("{}[{}]", message.path("content"), i), problem, out);
  }
  return out;
}

Value read_message(const Value& value, std::size_t index, Problem& problem) {
  const Fields message(value, fmt::format("messages[{}]", index), problem);
  json::Object out;
  const std::string* role = message.string("role");
  if (role == nullptr) {
    message.note("role", "is required");
    return out;
  }
  if (std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end()) {
    message.note("role", fmt::format("must be one of system, developer, user, assistant, tool.{}",
                                     suggestion(*role, kRoles)));
    return out;
  }
  add_member(out, "role", Value(*role == "developer" ? std::string("system") : *role));
  const json::Array* calls = message.array("tool_calls");
  const bool has_calls = calls != nullptr && !calls->empty() && *role == "assistant";
  add_member(out, "content", Value(read_content(message, problem, !has_calls)));
  if (has_calls) {
    add_member(out, "tool_calls",
               Value(read_tool_calls(*calls, message.path("tool_calls"), problem)));
  }
  for (const std::string_view name : {"name", "tool_call_id", "reasoning_content"}) {
    if (const std::string* text = message.string(name)) add_member(out, name, Value(*text));
  }
  return out;
}

}  // namespace

ChatPrompt read_chat_prompt(const Fields& body, Problem& problem) {
  ChatPrompt out;
  if (const json::Object* options = body.object("chat_template_kwargs")) {
    json::append(out.options, Value(*options));
  }
  const json::Array* messages = body.array("messages");
  if (messages == nullptr) {
    body.note("messages", "is required: an array of {\"role\", \"content\"}");
    return out;
  }
  if (messages->empty() || messages->size() > kMessagesMax) {
    body.note("messages",
              fmt::format("must hold 1 to {} messages, not {}", kMessagesMax, messages->size()));
    return out;
  }
  json::Array normalised;
  normalised.reserve(messages->size());
  for (std::size_t i = 0; i < messages->size() && !problem; ++i) {
    normalised.push_back(read_message((*messages)[i], i, problem));
  }
  json::append(out.messages, Value(std::move(normalised)));
  return out;
}

}  // namespace lares::server
