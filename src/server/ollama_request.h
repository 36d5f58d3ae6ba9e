// Bodies of Ollama's /api/chat and /api/generate, checked and turned into a Generation.
//
// Pure; any thread. As with OpenAI's: unknown fields are ignored, a known one of a wrong type or
// beyond its range is an error that names it.
#pragma once

#include <string_view>

#include <tl/expected.hpp>

#include "server/errors.h"
#include "server/generation.h"
#include "server/openai_request.h"

namespace lares::server {

enum class OllamaForm : std::uint8_t { Chat, Generate };

struct OllamaRequest {
  Generation generation;
  OllamaForm form = OllamaForm::Chat;
  bool stream = true;
  // Nothing is asked: the model is only to be loaded. The generation is one token that nobody sees.
  bool load_only = false;
};

tl::expected<OllamaRequest, ApiError> parse_ollama_request(OllamaForm form, std::string_view body,
                                                           const RequestDefaults& defaults = {});

}  // namespace lares::server
