// Carries a generation's events to the client that asked for it, in Ollama's form.
//
// As OpenAiSink: events come on the loop thread, set_job() on the I/O thread once submit() has
// returned; events that were faster wait for it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/types.h"
#include "server/answer.h"
#include "server/generation.h"
#include "server/ollama_reply.h"

namespace lares::server {

class OllamaSink final : public GenerationSink {
 public:
  OllamaSink(std::shared_ptr<Answer> answer, OllamaHead head, bool stream,
             std::function<Instant()> now);

  void set_job(JobId job);
  void on_event(GenerationEvent event) override;

 private:
  void handle(const GenerationEvent& event);
  void delta(const TextDelta& delta);
  void ended(const Ended& ended);

  std::shared_ptr<Answer> answer_;  // Until ended.
  OllamaReply reply_;
  const bool stream_;
  const std::function<Instant()> now_;
  const Instant begun_;
  std::optional<Instant> first_text_;
  bool streaming_ = false;

  std::mutex mutex_;
  bool named_ = false;
  std::vector<GenerationEvent> early_;
};

}  // namespace lares::server
