#include "server/ollama_sink.h"

#include <string>
#include <utility>

namespace lares::server {

OllamaSink::OllamaSink(std::shared_ptr<Answer> answer, OllamaHead head, bool stream,
                       std::function<Instant()> now)
    : answer_(std::move(answer)),
      reply_(std::move(head)),
      stream_(stream),
      now_(std::move(now)),
      begun_(now_()) {}

void OllamaSink::set_job(JobId job) {
  const std::scoped_lock lock(mutex_);
  if (answer_) answer_->set_id(std::to_string(job.value));
  named_ = true;
  for (const GenerationEvent& event : early_) handle(event);
  early_ = {};
}

void OllamaSink::on_event(GenerationEvent event) {
  const std::scoped_lock lock(mutex_);
  if (!named_) {
    early_.push_back(std::move(event));
    return;
  }
  handle(event);
}

// A stream's head goes out once the request is accepted, so that a refusal has its own status.
void OllamaSink::handle(const GenerationEvent& event) {
  if (!answer_) return;
  if (const auto* accepted = std::get_if<Accepted>(&event)) {
    reply_.set_model(accepted->model);
    streaming_ = stream_;
    if (streaming_) answer_->begin_stream("application/x-ndjson");
    return;
  }
  if (const auto* text = std::get_if<TextDelta>(&event)) return delta(*text);
  ended(std::get<Ended>(event));
}

void OllamaSink::delta(const TextDelta& delta) {
  if (!first_text_) first_text_ = now_();
  std::string out;
  reply_.add(delta, streaming_, out);
  if (!out.empty()) answer_->send(std::move(out));
}

void OllamaSink::ended(const Ended& ended) {
  const auto answer = std::exchange(answer_, nullptr);
  std::string out;
  if (ended.error) {
    HttpResponse response = ollama_error_response(api_error(ended));
    if (!streaming_) return answer->respond(std::move(response));
    answer->send(response.body + "\n");
    return answer->end_stream();
  }
  const Instant at = now_();
  reply_.append_end(ended.usage, {at - begun_, first_text_.value_or(at) - begun_}, streaming_, out);
  if (streaming_) {
    answer->send(std::move(out));
    return answer->end_stream();
  }
  out.pop_back();  // The line's end.
  HttpResponse response;
  response.body = std::move(out);
  answer->respond(std::move(response));
}

}  // namespace lares::server
