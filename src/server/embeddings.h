// Embeddings as clients ask for them, OpenAI's way and Ollama's: bodies in, answers out.
//
// Reading is pure; any thread. The sink gets its events on the loop's thread and writes each vector
// as it comes, so that no answer of a thousand is written in one piece there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "core/types.h"
#include "server/answer.h"
#include "server/errors.h"
#include "server/generation.h"

namespace lares::server {

enum class EmbedForm : std::uint8_t {
  OpenAi,        // POST /v1/embeddings
  Ollama,        // POST /api/embed
  OllamaPrompt,  // POST /api/embeddings, Ollama's first one: a single text
};

inline constexpr std::size_t kEmbedInputsMax = 2048;  // As OpenAI.

struct EmbedRequest {
  Generation generation;
  EmbedForm form = EmbedForm::OpenAi;
  bool base64 = false;
};

// Errors name the field and the numbers.
tl::expected<EmbedRequest, ApiError> parse_embed_request(EmbedForm form, std::string_view body,
                                                         std::uint32_t json_depth);

// The first `dimensions` of a vector, again of length 1; all of them for 0.
std::vector<float> shortened(std::vector<float> values, std::uint32_t dimensions);

// "[0.5,-1.25]", or the base64 of the little-endian floats, in quotes.
std::string embedding_text(const std::vector<float>& values, bool base64);

// An error as the clients of that form expect it.
HttpResponse embed_error(EmbedForm form, const ApiError& error);

class EmbedSink final : public GenerationSink {
 public:
  EmbedSink(std::shared_ptr<Answer> answer, const EmbedRequest& request,
            std::function<Instant()> now);

  void set_job(JobId job);
  void on_event(GenerationEvent event) override;

 private:
  void handle(GenerationEvent& event);
  [[nodiscard]] HttpResponse whole(const Usage& usage) const;

  std::shared_ptr<Answer> answer_;  // Until ended.
  const EmbedForm form_;
  const bool base64_;
  const std::uint32_t dimensions_;
  const std::function<Instant()> now_;
  const Instant begun_;
  std::string model_;
  std::vector<std::string> vectors_;  // By input, as written in the answer.

  std::mutex mutex_;
  bool named_ = false;
  std::vector<GenerationEvent> early_;
};

}  // namespace lares::server
