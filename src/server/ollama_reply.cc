#include "server/ollama_reply.h"

#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "core/hash.h"
#include "core/json.h"
#include "core/text.h"

namespace lares::server {
namespace {

// Until it is unloaded: a date that no client takes for the past.
constexpr std::string_view kNever = "2318-01-01T00:00:00Z";

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, is_utf8(text) ? text : utf8_sanitised(text));
  out += '"';
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  fmt::format_to(std::back_inserter(out), "\"{}\":", name);
  append_quoted(out, value);
}

// [{"function":{"name":"light","arguments":{}}}]; arguments that were cut off become an empty
// object.
void append_calls(std::string& out, const std::vector<CallDelta>& calls) {
  out += '[';
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i != 0) out += ',';
    out += "{\"id\":";
    append_quoted(out, calls[i].id);
    out += ",\"function\":{\"index\":";
    out += std::to_string(i);
    out += ",\"name\":";
    append_quoted(out, calls[i].name);
    out += ",\"arguments\":";
    const auto parsed = json::parse(calls[i].arguments);
    out += parsed && parsed->as<json::Object>() != nullptr ? json::to_text(*parsed) : "{}";
    out += "}}";
  }
  out += ']';
}

std::string digest_of(const ModelStatus& model) {
  std::string out;
  std::uint64_t part = hash_combine(hash_text(model.name), model.created);
  for (int i = 0; i < 4; ++i) {
    part = mix64(part + static_cast<std::uint64_t>(model.info.weights.count));
    out += fmt::format("{:016x}", part);
  }
  return out;
}

std::string parameter_size(std::uint64_t parameters) {
  const auto n = static_cast<double>(parameters);
  if (parameters >= 1000000000) return fmt::format("{:.1f}B", n / 1e9);
  return fmt::format("{:.1f}M", n / 1e6);
}

// "qwen3 0.6B Q8_0" -> "Q8_0"
std::string quantization(const std::string& description) {
  return description.substr(description.rfind(' ') + 1);
}

void append_details(std::string& out, const ModelStatus& model) {
  out += "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",";
  append_field(out, "family", model.info.architecture);
  out += ",\"families\":[";
  append_quoted(out, model.info.architecture);
  out += "],";
  append_field(out, "parameter_size", parameter_size(model.info.parameters));
  out += ',';
  append_field(out, "quantization_level", quantization(model.info.description));
  out += '}';
}

void append_model(std::string& out, const ModelStatus& model) {
  out += '{';
  append_field(out, "name", model.name);
  out += ',';
  append_field(out, "model", model.name);
  out += ',';
  append_field(out, "modified_at", rfc3339(model.created));
  fmt::format_to(std::back_inserter(out), ",\"size\":{},", model.info.weights.count);
  append_field(out, "digest", digest_of(model));
  out += ',';
  append_details(out, model);
}

}  // namespace

void OllamaReply::append_line(std::string& out, const std::vector<CallDelta>& calls) {
  out += '{';
  append_field(out, "model", head_.model);
  out += ',';
  append_field(out, "created_at", head_.created_at);
  if (head_.form == OllamaForm::Chat) {
    out += ",\"message\":{\"role\":\"assistant\",";
    append_field(out, "content", text_);
  } else {
    out += ',';
    append_field(out, "response", text_);
  }
  if (!thinking_.empty()) {
    out += ',';
    append_field(out, "thinking", thinking_);
  }
  if (!calls.empty()) {
    out += ",\"tool_calls\":";
    append_calls(out, calls);
  }
  if (head_.form == OllamaForm::Chat) out += '}';
  text_.clear();
  thinking_.clear();
}

void OllamaReply::add(const TextDelta& delta, bool stream, std::string& out) {
  if (delta.finish != Finish::None) finish_ = delta.finish;
  if (head_.load_only) return;
  text_ += delta.text;
  thinking_ += delta.reasoning;
  for (const CallDelta& call : delta.calls) {
    if (calls_.size() <= call.index) calls_.resize(call.index + 1);
    CallDelta& whole = calls_[call.index];
    if (!call.name.empty()) whole = {call.index, call.id, call.name, ""};
    whole.arguments += call.arguments;
  }
  if (!stream || (text_.empty() && thinking_.empty())) return;
  append_line(out, {});
  out += ",\"done\":false}\n";
}

void OllamaReply::append_end(const Usage& usage, const OllamaTimes& times, bool stream,
                             std::string& out) {
  if (head_.load_only || head_.unload_only) {
    append_line(out, {});
    out += fmt::format(",\"done\":true,\"done_reason\":\"{}\"}}\n",
                       head_.unload_only ? "unload" : "load");
    return;
  }
  if (stream && !calls_.empty()) {
    append_line(out, std::exchange(calls_, {}));
    out += ",\"done\":false}\n";
  }
  append_line(out, calls_);
  fmt::format_to(std::back_inserter(out),
                 ",\"done\":true,\"done_reason\":\"{}\",\"total_duration\":{},\"load_duration\":0,"
                 "\"prompt_eval_count\":{},\"prompt_eval_duration\":{},\"eval_count\":{},"
                 "\"eval_duration\":{}}}\n",
                 finish_ == Finish::Length ? "length" : "stop", times.total.count(),
                 usage.prompt_tokens, times.prompt.count(), usage.output_tokens,
                 (times.total - times.prompt).count());
}

std::string rfc3339(std::uint64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

std::string ollama_tags(const std::vector<ModelStatus>& models) {
  std::string out = "{\"models\":[";
  bool first = true;
  for (const ModelStatus& model : models) {
    if (model.state == "failed" || model.state == "probing") continue;
    if (!std::exchange(first, false)) out += ',';
    append_model(out, model);
    out += '}';
  }
  return out + "]}";
}

std::string ollama_running(const std::vector<ModelStatus>& models) {
  std::string out = "{\"models\":[";
  bool first = true;
  for (const ModelStatus& model : models) {
    if (model.state != "ready" || !model.alias_of.empty()) continue;
    if (!std::exchange(first, false)) out += ',';
    append_model(out, model);
    fmt::format_to(std::back_inserter(out),
                   ",\"expires_at\":\"{}\",\"size_vram\":{},\"context_length\":{}}}", kNever,
                   model.info.weights.count, model.context);
  }
  return out + "]}";
}

std::string ollama_show(const ModelStatus& model) {
  std::string out = "{\"license\":\"\",\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\",";
  append_details(out, model);
  const std::string& family = model.info.architecture;
  out += ",\"model_info\":{";
  append_field(out, "general.architecture", family);
  fmt::format_to(std::back_inserter(out), ",\"general.parameter_count\":{},",
                 model.info.parameters);
  append_quoted(out, family + ".context_length");
  fmt::format_to(std::back_inserter(out), ":{},", model.context);
  append_quoted(out, family + ".embedding_length");
  fmt::format_to(std::back_inserter(out), ":{}}},\"capabilities\":[", model.info.embedding);
  if (model.info.can.generates) out += "\"completion\"";
  if (model.info.can.generates && model.info.can.has_chat_template) out += ",\"tools\"";
  if (model.info.can.embeds) out += model.info.can.generates ? ",\"embedding\"" : "\"embedding\"";
  out += "],";
  append_field(out, "modified_at", rfc3339(model.created));
  return out + "}";
}

}  // namespace lares::server
