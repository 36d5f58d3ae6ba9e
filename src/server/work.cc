#include "server/work.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/json.h"
#include "server/embeddings.h"
#include "server/ollama_request.h"
#include "server/sketch_request.h"

namespace lares::server {
namespace {

constexpr std::array<std::string_view, 5> kPicturePaths{"/v1/sketches", "/v1/images/generations",
                                                        "/v1/images/edits", "/sdapi/v1/txt2img",
                                                        "/sdapi/v1/img2img"};
constexpr std::array<std::string_view, 7> kPaths{
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/api/chat",
    "/api/generate",        "/api/embed",      "/api/embeddings"};

template <class Parsed>
std::optional<ApiError> error_in(const tl::expected<Parsed, ApiError>& parsed) {
  return parsed ? std::nullopt : std::optional(parsed.error());
}

}  // namespace

bool makes_work(std::string_view path) {
  return std::ranges::find(kPaths, path) != kPaths.end() || makes_pictures(path);
}

std::string work_paths() {
  return fmt::format("{}, {}", fmt::join(kPaths, ", "), fmt::join(kPicturePaths, ", "));
}

bool makes_pictures(std::string_view path) {
  return std::ranges::find(kPicturePaths, path) != kPicturePaths.end();
}

bool makes_embeddings(std::string_view path) {
  return path == "/v1/embeddings" || path == "/api/embed" || path == "/api/embeddings";
}

bool is_streamed(std::string_view path, std::string_view body) {
  const bool usual = path == "/api/chat" || path == "/api/generate";
  // Most bodies do not say; those are not read twice.
  if (body.find("\"stream\"") == body.npos) return usual;
  const auto parsed = json::parse(body);
  const json::Value* stream = parsed ? parsed->find("stream") : nullptr;
  const bool* said = stream == nullptr ? nullptr : stream->as<bool>();
  return said == nullptr ? usual : *said;
}

std::optional<ApiError> check_work(std::string_view path, std::string_view body,
                                   const RequestDefaults& defaults) {
  if (makes_pictures(path)) {
    const Asked asked = read_picture_request(path, body, 0);
    return asked ? std::nullopt : std::optional(asked.error().error);
  }
  if (path == "/v1/chat/completions")
    return error_in(parse_openai_request(OpenAiForm::Chat, body, defaults));
  if (path == "/v1/completions")
    return error_in(parse_openai_request(OpenAiForm::Completion, body, defaults));
  if (path == "/api/chat") return error_in(parse_ollama_request(OllamaForm::Chat, body, defaults));
  if (path == "/api/generate")
    return error_in(parse_ollama_request(OllamaForm::Generate, body, defaults));
  const EmbedForm form = path == "/v1/embeddings" ? EmbedForm::OpenAi
                         : path == "/api/embed"   ? EmbedForm::Ollama
                                                  : EmbedForm::OllamaPrompt;
  return error_in(parse_embed_request(form, body, defaults.json_depth));
}

}  // namespace lares::server
