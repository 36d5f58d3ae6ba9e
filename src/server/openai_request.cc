#include "server/openai_request.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "core/json.h"
#include "server/openai_messages.h"
#include "server/openai_tools.h"

namespace lares::server {
namespace {

using json::Fields;
using json::Problem;
using json::Value;

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

void set(float& to, std::optional<double> value) {
  if (value) to = static_cast<float>(*value);
}

void read_penalties(const Fields& body, engine::Sampling& sampling) {
  set(sampling.presence_penalty, body.number("presence_penalty", -2, 2));
  set(sampling.frequency_penalty, body.number("frequency_penalty", -2, 2));
  set(sampling.repeat_penalty, body.number("repetition_penalty", 0.01, 10));  // vLLM's name.
  set(sampling.repeat_penalty, body.number("repeat_penalty", 0.01, 10));      // llama.cpp's.
  if (const auto window = body.integer("repeat_last_n", 0, 65536)) {
    sampling.penalty_window = static_cast<std::uint32_t>(*window);
  }
}

// {"token id": bias}
void read_logit_bias(const Fields& body, engine::Sampling& sampling) {
  const json::Object* biases = body.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > kLogitBiasMax) {
    return body.note("logit_bias", fmt::format("must have at most {} entries, not {}",
                                               kLogitBiasMax, biases->size()));
  }
  for (const auto& [name, value] : *biases) {
    std::int32_t token = -1;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (failed != std::errc{} || end != name.data() + name.size() || token < 0) {
      return body.note("logit_bias", fmt::format("must name tokens by number, not `{}`", name));
    }
    const auto bias = value.number();
    if (!bias || *bias < -100 || *bias > 100) {
      return body.note("logit_bias", "must give each token a number between -100 and 100");
    }
    sampling.logit_bias.emplace_back(token, static_cast<float>(*bias));
  }
}

void read_sampling(const Fields& body, Generation& out) {
  engine::Sampling& sampling = out.sampling;
  set(sampling.temperature, body.number("temperature", 0, 2));
  set(sampling.top_p, body.number("top_p", 0, 1));
  set(sampling.min_p, body.number("min_p", 0, 1));
  if (const auto top_k = body.integer("top_k", -1, kInt32Max)) {  // -1 is vLLM's "off".
    sampling.top_k = *top_k < 0 ? 0 : static_cast<std::uint32_t>(*top_k);
  }
  read_penalties(body, sampling);
  read_logit_bias(body, sampling);
  sampling.ignore_eos = body.boolean("ignore_eos").value_or(false);
  // Any number is a seed, but -1, which is llama.cpp's "random".
  const Value* seed = body.find("seed");
  if (const auto* large = seed == nullptr ? nullptr : seed->as<std::uint64_t>()) {
    out.seed = *large;
  } else if (const auto number = body.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                              std::numeric_limits<std::int64_t>::max());
             number && *number != -1) {
    out.seed = static_cast<std::uint64_t>(*number);
  }
}

void add_stop(const Fields& body, const Value& value, std::vector<std::string>& out) {
  const auto* text = value.as<std::string>();
  if (text == nullptr) {
    return body.note("stop", fmt::format("must be a string or an array of strings, not {}",
                                         json::kind_name(value)));
  }
  if (text->empty() || text->size() > kStopBytesMax) {
    return body.note("stop", fmt::format("must hold strings of 1 to {} bytes", kStopBytesMax));
  }
  out.push_back(*text);
}

void read_stop(const Fields& body, std::vector<std::string>& out) {
  const Value* stop = body.find("stop");
  if (stop == nullptr) return;
  const auto* list = stop->as<json::Array>();
  if (list == nullptr) return add_stop(body, *stop, out);
  if (list->size() > kStopsMax) {
    return body.note("stop",
                     fmt::format("must hold at most {} strings, not {}", kStopsMax, list->size()));
  }
  for (const Value& item : *list) add_stop(body, item, out);
}

void read_limits(const Fields& body, Generation& out) {
  // The newer name wins.
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
    if (const auto most = body.integer(name, 1, kInt32Max)) {
      out.max_tokens = static_cast<std::uint32_t>(*most);
    }
  }
  if (const auto n = body.integer("n", 1, kChoicesMax)) out.n = static_cast<std::uint32_t>(*n);
  read_stop(body, out.stop);
}

void read_chat_logprobs(const Fields& body, engine::Sampling& sampling) {
  sampling.want_logprob = body.boolean("logprobs").value_or(false);
  const auto top = body.integer("top_logprobs", 0, kTopLogprobsMax);
  if (!top) return;
  if (*top > 0 && !sampling.want_logprob) {
    return body.note("top_logprobs", "needs `logprobs` to be true");
  }
  sampling.logprobs = static_cast<std::uint8_t>(*top);
}

void read_completion_logprobs(const Fields& body, engine::Sampling& sampling) {
  const auto top = body.integer("logprobs", 0, kTopLogprobsMax);
  if (!top) return;
  sampling.want_logprob = true;
  sampling.logprobs = static_cast<std::uint8_t>(*top);
}

TokenPrompt read_tokens(const Fields& body, const json::Array& list) {
  TokenPrompt out;
  out.tokens.reserve(list.size());
  for (const Value& item : list) {
    const auto token = item.integer();
    if (!token || *token < 0 || *token > kInt32Max) {
      body.note("prompt", "must hold tokens as whole numbers from 0, or one string");
      return {};
    }
    out.tokens.push_back(static_cast<std::int32_t>(*token));
  }
  return out;
}

// A string, [a string], tokens, or [tokens].
void read_prompt(const Fields& body, Generation& out) {
  const Value* prompt = body.find("prompt");
  if (prompt == nullptr) return body.note("prompt", "is required: a string or an array of tokens");
  const auto* list = prompt->as<json::Array>();
  if (list != nullptr && !list->empty() && !list->front().number()) {
    if (list->size() > 1) {
      return body.note("prompt", fmt::format("must be a single prompt, not {}: send one request "
                                             "for each",
                                             list->size()));
    }
    prompt = &list->front();
    list = prompt->as<json::Array>();
  }
  if (const auto* text = prompt->as<std::string>()) {
    if (text->empty()) return body.note("prompt", "must not be empty");
    out.prompt = TextPrompt{*text};
  } else if (list != nullptr) {
    if (list->empty()) return body.note("prompt", "must not be empty");
    out.prompt = read_tokens(body, *list);
  } else {
    body.note("prompt", fmt::format("must be a string or an array of tokens, not {}",
                                    json::kind_name(*prompt)));
  }
}

ApiError unsupported(std::string param, std::string message) {
  ApiError error;
  error.code = Code::Unsupported;
  error.param = std::move(param);
  error.message = std::move(message);
  return error;
}

bool is_empty(const Value& value) {
  const auto* list = value.as<json::Array>();
  const auto* text = value.as<std::string>();
  return (list != nullptr && list->empty()) || (text != nullptr && text->empty());
}

// What OpenAI's API can do and this server cannot. Better refused than quietly left out.
std::optional<ApiError> find_unsupported(const Fields& body, OpenAiForm form) {
  const bool chat = form == OpenAiForm::Chat;
  for (const std::string_view name : {"functions", "suffix", "audio", "tools", "response_format"}) {
    const Value* value = body.find(name);
    if (value == nullptr || is_empty(*value)) continue;
    if (chat && (name == "tools" || name == "response_format")) continue;
    if (name == "functions") {
      return unsupported("functions", "`functions` are not supported: send `tools` instead");
    }
    return unsupported(std::string(name),
                       fmt::format("`{}` is not supported yet: leave it out", name));
  }
  const auto best_of = body.integer("best_of", 1, kChoicesMax);
  if (best_of && *best_of > body.integer("n", 1, kChoicesMax).value_or(1)) {
    return unsupported("best_of", "`best_of` beyond `n` is not supported: leave it out");
  }
  return std::nullopt;
}

void read_stream(const Fields& body, Problem& problem, OpenAiRequest& out) {
  out.stream = body.boolean("stream").value_or(false);
  const Value* options = body.find("stream_options");
  if (options == nullptr) return;
  const Fields fields(*options, "stream_options", problem);
  out.include_usage = out.stream && fields.boolean("include_usage").value_or(false);
}

}  // namespace

ApiError unreadable_body(Error error) {
  ApiError out;
  out.code = error.code;
  out.message = "the body cannot be read: " + error.message;
  out.error_code = error.code == Code::TooLarge ? "json_too_large" : "invalid_json";
  return out;
}

tl::expected<OpenAiRequest, ApiError> parse_openai_request(OpenAiForm form, std::string_view text,
                                                           const RequestDefaults& defaults) {
  auto parsed = json::parse(text, {.depth = defaults.json_depth});
  if (!parsed) return tl::unexpected(unreadable_body(std::move(parsed.error())));
  Problem problem;
  const Fields body(*parsed, "", problem);
  OpenAiRequest out;
  out.form = form;
  out.generation.sampling = defaults.sampling;
  if (const std::string* model = body.string("model")) out.generation.model = *model;
  read_sampling(body, out.generation);
  read_limits(body, out.generation);
  read_stream(body, problem, out);
  if (form == OpenAiForm::Chat) {
    read_chat_logprobs(body, out.generation.sampling);
    ChatPrompt prompt = read_chat_prompt(body, problem);
    if (!problem) read_answer_form(body, problem, prompt);
    out.generation.prompt = std::move(prompt);
  } else {
    read_completion_logprobs(body, out.generation.sampling);
    out.generation.echo = body.boolean("echo").value_or(false);
    read_prompt(body, out.generation);
  }
  auto refused = problem ? std::nullopt : find_unsupported(body, form);
  if (refused) return tl::unexpected(std::move(*refused));
  if (problem) {
    ApiError error;
    error.message = std::move(problem.message);
    error.param = std::move(problem.param);
    return tl::unexpected(std::move(error));
  }
  return out;
}

}  // namespace lares::server
