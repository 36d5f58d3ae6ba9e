// Answers in Ollama's form: lines of JSON, or one of them, and what it says of models.
//
// Pure; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/errors.h"
#include "server/generation.h"
#include "server/ollama_request.h"
#include "server/service.h"

namespace lares::server {

// What is the same in every line of one answer.
struct OllamaHead {
  OllamaForm form = OllamaForm::Chat;
  std::string model;       // As the client called it.
  std::string created_at;  // RFC 3339
  bool load_only = false;
  bool unload_only = false;  // One of the two, or neither.
};

// How long an answer took, by the clock of the routes.
struct OllamaTimes {
  Duration total{};
  Duration prompt{};  // To the first text.
};

// Turns deltas into lines. Ollama's calls come whole, so they are kept until they are.
class OllamaReply {
 public:
  explicit OllamaReply(OllamaHead head) : head_(std::move(head)) {}

  // The model that took it, for a client that named none.
  void set_model(const std::string& model) {
    if (head_.model.empty()) head_.model = model;
  }
  // Appends a line, if there is something to tell. Not streamed: keeps everything for the end.
  void add(const TextDelta& delta, bool stream, std::string& out);
  // Appends the last line, and before it, in a stream, one with the calls.
  void append_end(const Usage& usage, const OllamaTimes& times, bool stream, std::string& out);

 private:
  void append_line(std::string& out, const std::vector<CallDelta>& calls);

  OllamaHead head_;
  std::string text_, thinking_;
  std::vector<CallDelta> calls_;
  Finish finish_ = Finish::None;
};

// "2023-11-14T22:13:20Z"
std::string rfc3339(std::uint64_t unix_seconds);

std::string ollama_tags(const std::vector<ModelStatus>& models);
std::string ollama_running(const std::vector<ModelStatus>& models);
std::string ollama_show(const ModelStatus& model);

}  // namespace lares::server
