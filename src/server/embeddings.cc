#include "server/embeddings.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/base64.h"
#include "core/json.h"
#include "core/text.h"
#include "server/openai_request.h"

namespace lares::server {
namespace {

using json::Fields;
using json::Problem;
using json::Value;

constexpr std::int64_t kDimensionsMax = 65536;

using Input = std::variant<std::string, std::vector<std::int32_t>>;

// Tokens of one text; noted at `name`.
Input read_tokens(const Fields& body, std::string_view name, const json::Array& list) {
  std::vector<std::int32_t> tokens;
  tokens.reserve(list.size());
  for (const Value& item : list) {
    const auto token = item.integer();
    if (!token || *token < 0 || *token > std::numeric_limits<std::int32_t>::max()) {
      body.note(name, "must hold tokens as whole numbers from 0, or strings");
      return {};
    }
    tokens.push_back(static_cast<std::int32_t>(*token));
  }
  return tokens;
}

void add_input(const Fields& body, const std::string& name, const Value& value,
               std::vector<Input>& out) {
  const auto* list = value.as<json::Array>();
  if (const auto* text = value.as<std::string>()) {
    if (text->empty()) return body.note(name, "must not be empty");
    out.emplace_back(*text);
  } else if (list != nullptr) {
    if (list->empty()) return body.note(name, "must not be empty");
    out.push_back(read_tokens(body, name, *list));
  } else {
    body.note(name, fmt::format("must be a string or an array of tokens, not {}",
                                json::kind_name(value)));
  }
}

// A string, tokens, or an array of either.
void read_inputs(const Fields& body, std::vector<Input>& out) {
  const Value* input = body.find("input");
  if (input == nullptr) {
    return body.note("input", "is required: a string, or an array of strings or of tokens");
  }
  const auto* list = input->as<json::Array>();
  const bool single = list == nullptr || (!list->empty() && list->front().number());
  if (single) return add_input(body, "input", *input, out);
  if (list->empty()) return body.note("input", "must not be empty");
  if (list->size() > kEmbedInputsMax) {
    return body.note("input", fmt::format("must hold at most {} texts, not {}: send the rest in "
                                          "further requests",
                                          kEmbedInputsMax, list->size()));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    add_input(body, fmt::format("input[{}]", i), (*list)[i], out);
  }
}

// Ollama writes "name:tag"; the tag that it adds by itself says nothing.
std::string without_latest(std::string_view name) {
  constexpr std::string_view kTag = ":latest";
  if (name.ends_with(kTag)) name.remove_suffix(kTag.size());
  return std::string(name);
}

void read_openai(const Fields& body, EmbedPrompt& prompt, EmbedRequest& out) {
  read_inputs(body, prompt.inputs);
  if (const std::string* format = body.string("encoding_format")) {
    out.base64 = *format == "base64";
    if (!out.base64 && *format != "float") {
      body.note("encoding_format", "must be \"float\" or \"base64\"");
    }
  }
}

void read_ollama(const Fields& body, EmbedPrompt& prompt, EmbedRequest& out) {
  prompt.truncate = body.boolean("truncate").value_or(true);
  out.generation.model = without_latest(out.generation.model);
  if (out.form == EmbedForm::Ollama) return read_inputs(body, prompt.inputs);
  const std::string* text = body.string("prompt");
  if (text == nullptr || text->empty()) return body.note("prompt", "is required: the text");
  prompt.inputs.emplace_back(*text);
}

}  // namespace

tl::expected<EmbedRequest, ApiError> parse_embed_request(EmbedForm form, std::string_view text,
                                                         std::uint32_t json_depth) {
  auto parsed = json::parse(text, {.depth = json_depth});
  if (!parsed) return tl::unexpected(unreadable_body(std::move(parsed.error())));
  Problem problem;
  const Fields body(*parsed, "", problem);
  EmbedRequest out;
  out.form = form;
  EmbedPrompt prompt;
  if (const std::string* model = body.string("model")) out.generation.model = *model;
  if (form == EmbedForm::OpenAi) {
    read_openai(body, prompt, out);
  } else {
    read_ollama(body, prompt, out);
  }
  if (const auto dimensions = body.integer("dimensions", 1, kDimensionsMax)) {
    prompt.dimensions = static_cast<std::uint32_t>(*dimensions);
  }
  if (problem) {
    ApiError error;
    error.message = std::move(problem.message);
    error.param = std::move(problem.param);
    return tl::unexpected(std::move(error));
  }
  out.generation.prompt = std::move(prompt);
  return out;
}

std::vector<float> shortened(std::vector<float> values, std::uint32_t dimensions) {
  if (dimensions == 0 || dimensions >= values.size()) return values;
  values.resize(dimensions);
  double square = 0;
  for (const float value : values) square += static_cast<double>(value) * value;
  if (square == 0) return values;
  const double scale = 1 / std::sqrt(square);
  for (float& value : values) value = static_cast<float>(value * scale);
  return values;
}

std::string embedding_text(const std::vector<float>& values, bool base64) {
  std::string out;
  if (base64) {
    // This machine's floats are little-endian, as everywhere llama.cpp's backends run.
    std::string bytes(values.size() * sizeof(float), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return '"' + base64_of(bytes) + '"';
  }
  out = "[";
  for (const float value : values) {
    if (out.size() > 1) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", std::isfinite(value) ? value : 0.0F);
  }
  return out + ']';
}

HttpResponse embed_error(EmbedForm form, const ApiError& error) {
  HttpResponse response = error_response(error);
  if (form == EmbedForm::OpenAi) return response;
  response.body = "{\"error\":\"";
  append_json_escaped(response.body, utf8_sanitised(error.message));
  response.body += "\"}";
  return response;
}

EmbedSink::EmbedSink(std::shared_ptr<Answer> answer, const EmbedRequest& request,
                     std::function<Instant()> now)
    : answer_(std::move(answer)),
      form_(request.form),
      base64_(request.base64),
      dimensions_(std::get<EmbedPrompt>(request.generation.prompt).dimensions),
      now_(std::move(now)),
      begun_(now_()),
      model_(request.generation.model),
      vectors_(std::get<EmbedPrompt>(request.generation.prompt).inputs.size()) {}

void EmbedSink::set_job(JobId job) {
  const std::scoped_lock lock(mutex_);
  if (answer_) answer_->set_id(std::to_string(job.value));
  named_ = true;
  for (GenerationEvent& event : early_) handle(event);
  early_ = {};
}

void EmbedSink::on_event(GenerationEvent event) {
  const std::scoped_lock lock(mutex_);
  if (named_) return handle(event);
  early_.push_back(std::move(event));
}

void EmbedSink::handle(GenerationEvent& event) {
  if (!answer_) return;
  if (const auto* accepted = std::get_if<Accepted>(&event)) {
    model_ = accepted->model;
  } else if (auto* embedding = std::get_if<Embedding>(&event)) {
    LARES_ASSERT(embedding->index < vectors_.size(), "vector {} of {}", embedding->index,
                 vectors_.size());
    vectors_[embedding->index] =
        embedding_text(shortened(std::move(embedding->values), dimensions_), base64_);
  } else if (const auto* ended = std::get_if<Ended>(&event)) {
    const auto answer = std::exchange(answer_, nullptr);
    if (!ended->error) return answer->respond(whole(ended->usage));
    answer->respond(embed_error(form_, api_error(*ended)));
  }
}

HttpResponse EmbedSink::whole(const Usage& usage) const {
  HttpResponse response;
  std::string& body = response.body;
  if (form_ == EmbedForm::OllamaPrompt) {
    body = "{\"embedding\":" + vectors_.front() + '}';
    return response;
  }
  std::string model;
  append_json_escaped(model, utf8_sanitised(model_));
  const bool openai = form_ == EmbedForm::OpenAi;
  body = openai ? "{\"object\":\"list\",\"data\":["
                : fmt::format("{{\"model\":\"{}\",\"embeddings\":[", model);
  for (std::size_t i = 0; i < vectors_.size(); ++i) {
    if (i > 0) body += ',';
    if (openai) body += "{\"object\":\"embedding\",\"embedding\":";
    body += vectors_[i];
    if (openai) fmt::format_to(std::back_inserter(body), ",\"index\":{}}}", i);
  }
  if (openai) {
    body +=
        fmt::format("],\"model\":\"{}\",\"usage\":{{\"prompt_tokens\":{},\"total_tokens\":{}}}}}",
                    model, usage.prompt_tokens, usage.prompt_tokens);
  } else {
    body += fmt::format("],\"total_duration\":{},\"load_duration\":0,\"prompt_eval_count\":{}}}",
                        (now_() - begun_).count(), usage.prompt_tokens);
  }
  return response;
}

}  // namespace lares::server
