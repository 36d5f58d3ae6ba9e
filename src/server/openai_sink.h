// Carries a generation's events to the client that asked for it, in OpenAI's form.
//
// Events come on the loop thread; set_job() is called on the I/O thread once submit() has returned,
// and events that were faster wait for it, because every answer names the job.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"
#include "server/answer.h"
#include "server/generation.h"
#include "server/openai_reply.h"
#include "server/openai_request.h"

namespace lares::server {

class OpenAiSink final : public GenerationSink {
 public:
  // Takes from `request` how to answer; `head` lacks id and model.
  OpenAiSink(std::shared_ptr<Answer> answer, const OpenAiRequest& request, ReplyHead head);

  void set_job(JobId job);
  void on_event(GenerationEvent event) override;

 private:
  void handle(GenerationEvent& event);
  void queued(const QueueNews& news);
  void accepted(const std::string& model);
  void begin_stream();
  void delta(const TextDelta& delta);
  void ended(const Ended& ended);

  std::shared_ptr<Answer> answer_;  // Until ended.
  const bool stream_;
  ReplyHead head_;
  bool streaming_ = false;  // The stream's head was sent.
  std::optional<StreamReply> stream_reply_;
  std::optional<WholeReply> whole_reply_;

  std::mutex mutex_;
  bool named_ = false;
  std::vector<GenerationEvent> early_;
};

// "chatcmpl-12", "cmpl-12"
std::string openai_id(OpenAiForm form, JobId job);
// The job of "chatcmpl-12", "cmpl-12" or "12".
std::optional<JobId> job_of_id(std::string_view id);

}  // namespace lares::server
