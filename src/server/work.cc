#include "server/work.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "server/embeddings.h"
#include "server/ollama_request.h"

namespace lares::server {
namespace {

constexpr std::array<std::string_view, 7> kPaths{
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/api/chat",
    "/api/generate",        "/api/embed",      "/api/embeddings"};

template <class Parsed>
std::optional<ApiError> error_in(const tl::expected<Parsed, ApiError>& parsed) {
  return parsed ? std::nullopt : std::optional(parsed.error());
}

}  // namespace

bool makes_work(std::string_view path) {
  return std::ranges::find(kPaths, path) != kPaths.end();
}

std::string work_paths() {
  return fmt::format("{}", fmt::join(kPaths, ", "));
}

bool makes_embeddings(std::string_view path) {
  return path == "/v1/embeddings" || path == "/api/embed" || path == "/api/embeddings";
}

std::optional<ApiError> check_work(std::string_view path, std::string_view body,
                                   const RequestDefaults& defaults) {
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
