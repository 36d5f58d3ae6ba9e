#include "server/ollama_request.h"

#include <limits>

#include <fmt/format.h>

#include "core/json.h"
#include "core/text.h"
#include "server/openai_messages.h"
#include "server/openai_tools.h"

namespace lares::server {
namespace {

using json::Fields;
using json::Problem;
using json::Value;

constexpr double kInt32Max = std::numeric_limits<std::int32_t>::max();

void set(float& to, std::optional<double> value) {
  if (value) to = static_cast<float>(*value);
}

void read_stop(const Fields& options, std::vector<std::string>& out) {
  const Value* stop = options.find("stop");
  if (stop == nullptr) return;
  json::Array one{*stop};
  const auto* list = stop->as<json::Array>();
  if (list == nullptr) list = &one;
  if (list->size() > kStopsMax) {
    return options.note("stop", fmt::format("must hold at most {} strings", kStopsMax));
  }
  for (const Value& item : *list) {
    const auto* text = item.as<std::string>();
    if (text == nullptr || text->size() > kStopBytesMax) {
      return options.note("stop",
                          fmt::format("must hold strings of at most {} bytes", kStopBytesMax));
    }
    if (!text->empty()) out.push_back(*text);
  }
}

// Sizes of contexts and batches, threads and devices are the server's own business.
void read_options(const Fields& body, Problem& problem, Generation& out) {
  const Value* value = body.find("options");
  if (value == nullptr) return;
  const Fields options(*value, "options", problem);
  engine::Sampling& s = out.sampling;
  set(s.temperature, options.number("temperature", 0, 100));
  set(s.top_p, options.number("top_p", 0, 1));
  set(s.min_p, options.number("min_p", 0, 1));
  set(s.presence_penalty, options.number("presence_penalty", -10, 10));
  set(s.frequency_penalty, options.number("frequency_penalty", -10, 10));
  set(s.repeat_penalty, options.number("repeat_penalty", 0.01, 10));
  if (const auto top_k = options.number("top_k", -1, kInt32Max)) {
    s.top_k = *top_k < 0 ? 0 : static_cast<std::uint32_t>(*top_k);
  }
  if (const auto window = options.number("repeat_last_n", -1, 65536)) {
    s.penalty_window = *window < 0 ? 65536 : static_cast<std::uint32_t>(*window);
  }
  if (const auto most = options.number("num_predict", -2, kInt32Max); most && *most >= 1) {
    out.max_tokens = static_cast<std::uint32_t>(*most);
  }
  if (const auto seed = options.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                        std::numeric_limits<std::int64_t>::max());
      seed && *seed != -1) {
    out.seed = static_cast<std::uint64_t>(*seed);
  }
  read_stop(options, out.stop);
}

// A number of seconds or "5m": how long the model stays loaded when nobody uses it, from now on;
// less than nothing is as long as there is room.
std::optional<Duration> read_keep_alive(const Fields& body) {
  const Value* value = body.find("keep_alive");
  if (value == nullptr) return std::nullopt;
  constexpr double kLongest = 1e9;  // Seconds.
  std::optional<double> seconds = value->number();
  if (const auto* text = value->as<std::string>()) {
    if (const auto time = parse_duration(*text)) return *time;
    if (text->starts_with('-')) return Duration::max();
    if (*text == "0") return Duration{};
  }
  if (!seconds) {
    body.note("keep_alive", "must be a duration: seconds, or text such as \"5m\"");
    return std::nullopt;
  }
  if (*seconds < 0 || *seconds > kLongest) return Duration::max();
  return Duration(static_cast<Duration::rep>(*seconds * 1e9));
}

// `think` as arguments of the template.
void read_think(const Fields& body, json::Object& out) {
  const Value* think = body.find("think");
  if (think == nullptr) return;
  json::Object options;
  if (const bool* on = think->as<bool>()) {
    add_member(options, "enable_thinking", Value(*on));
  } else if (const auto* effort = think->as<std::string>()) {
    if (*effort != "low" && *effort != "medium" && *effort != "high") {
      return body.note("think", "must be true, false, \"low\", \"medium\" or \"high\"");
    }
    add_member(options, "enable_thinking", Value(true));
    add_member(options, "reasoning_effort", Value(*effort));
  } else {
    return body.note("think", "must be true, false, \"low\", \"medium\" or \"high\"");
  }
  add_member(out, "chat_template_kwargs", Value(std::move(options)));
}

// `format` as OpenAI's response_format.
void read_format(const Fields& body, json::Object& out) {
  const Value* format = body.find("format");
  if (format == nullptr || *format == Value("")) return;
  json::Object response;
  if (*format == Value("json")) {
    add_member(response, "type", Value("json_object"));
  } else if (const auto* schema = format->as<json::Object>()) {
    json::Object named;
    add_member(named, "schema", Value(*schema));
    add_member(response, "type", Value("json_schema"));
    add_member(response, "json_schema", Value(std::move(named)));
  } else {
    return body.note("format", "must be \"json\" or a JSON schema");
  }
  add_member(out, "response_format", Value(std::move(response)));
  // Whoever wants JSON gets it: as with Ollama, tools are then only spoken of.
  add_member(out, "tool_choice", Value("none"));
}

void refuse_images(const Fields& fields) {
  const Value* images = fields.find("images");
  const auto* list = images == nullptr ? nullptr : images->as<json::Array>();
  if (images == nullptr || (list != nullptr && list->empty())) return;
  fields.note("images", "are not read: this server's models take text alone");
}

// One message in OpenAI's names.
Value converted(const Value& value, std::size_t index, Problem& problem) {
  const Fields message(value, fmt::format("messages[{}]", index), problem);
  json::Object out;
  if (problem) return out;
  refuse_images(message);
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"role", "role"},
      {"content", "content"},
      {"tool_calls", "tool_calls"},
      {"tool_name", "name"},
      {"thinking", "reasoning_content"},
      {"name", "name"},
      {"tool_call_id", "tool_call_id"}};
  for (const auto& [from, to] : kNames) {
    if (const Value* field = message.find(from)) add_member(out, to, *field);
  }
  const Value* role = message.find("role");
  const bool bare = message.find("content") == nullptr && role != nullptr;
  if (bare && message.find("tool_calls") == nullptr) add_member(out, "content", Value(""));
  return out;
}

// A body of OpenAI's form with the same meaning, for the readers that know that.
Value chat_body(const Fields& body, json::Array messages) {
  json::Object out;
  add_member(out, "messages", Value(std::move(messages)));
  if (const Value* tools = body.find("tools")) add_member(out, "tools", *tools);
  read_think(body, out);
  read_format(body, out);
  return out;
}

void read_as_chat(const Fields& body, json::Array messages, Problem& problem, Generation& out) {
  const Value converted = chat_body(body, std::move(messages));
  if (problem) return;
  const Fields fields(converted, "", problem);
  ChatPrompt prompt = read_chat_prompt(fields, problem);
  if (!problem) read_answer_form(fields, problem, prompt);
  out.prompt = std::move(prompt);
}

void read_chat(const Fields& body, Problem& problem, OllamaRequest& out) {
  const json::Array* messages = body.array("messages");
  if (problem) return;
  out.load_only = messages == nullptr || messages->empty();
  if (out.load_only) return;
  json::Array list;
  list.reserve(messages->size());
  for (std::size_t i = 0; i < messages->size() && !problem; ++i) {
    list.push_back(converted((*messages)[i], i, problem));
  }
  read_as_chat(body, std::move(list), problem, out.generation);
}

void read_generate(const Fields& body, Problem& problem, OllamaRequest& out) {
  refuse_images(body);
  for (const std::string_view name : {"suffix", "template"}) {
    const std::string* text = body.string(name);
    if (text != nullptr && !text->empty()) body.note(name, "is not supported: leave it out");
  }
  const json::Array* context = body.array("context");
  if (context != nullptr && !context->empty()) {
    body.note("context", "is not supported: send the conversation to /api/chat");
  }
  const std::string* prompt = body.string("prompt");
  const std::string* system = body.string("system");
  if (problem) return;
  out.load_only = prompt == nullptr || prompt->empty();
  if (out.load_only) return;
  if (body.boolean("raw").value_or(false)) {
    out.generation.prompt = TextPrompt{*prompt};
    return;
  }
  json::Array messages;
  const auto add = [&](const char* role, const std::string& content) {
    json::Object message;
    add_member(message, "role", Value(role));
    add_member(message, "content", Value(content));
    messages.emplace_back(std::move(message));
  };
  if (system != nullptr && !system->empty()) add("system", *system);
  add("user", *prompt);
  read_as_chat(body, std::move(messages), problem, out.generation);
}

ApiError bad_body(Error error) {
  ApiError out;
  out.code = error.code;
  out.message = "the body cannot be read: " + error.message;
  out.error_code = error.code == Code::TooLarge ? "json_too_large" : "invalid_json";
  return out;
}

}  // namespace

tl::expected<OllamaRequest, ApiError> parse_ollama_request(OllamaForm form, std::string_view text,
                                                           const RequestDefaults& defaults) {
  auto parsed = json::parse(text, {.depth = defaults.json_depth});
  if (!parsed) return tl::unexpected(bad_body(std::move(parsed.error())));
  Problem problem;
  const Fields body(*parsed, "", problem);
  OllamaRequest out;
  out.form = form;
  out.generation.sampling = defaults.sampling;
  const std::string* model = body.string("model");
  if (model != nullptr) out.generation.model = *model;
  out.stream = body.boolean("stream").value_or(true);
  read_options(body, problem, out.generation);
  out.generation.keep = read_keep_alive(body);
  if (form == OllamaForm::Chat) {
    read_chat(body, problem, out);
  } else {
    read_generate(body, problem, out);
  }
  ApiError error;
  if (problem) {
    error.message = std::move(problem.message);
    error.param = std::move(problem.param);
    return tl::unexpected(std::move(error));
  }
  if (!out.load_only) return out;
  out.generation.unload_only = out.generation.keep == Duration{};
  out.generation.prompt = TextPrompt{" "};
  out.generation.max_tokens = 1;
  return out;
}

}  // namespace lares::server
