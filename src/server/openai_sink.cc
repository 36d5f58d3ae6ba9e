#include "server/openai_sink.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "server/queue.h"

namespace lares::server {

std::string openai_id(OpenAiForm form, JobId job) {
  return fmt::format("{}-{}", form == OpenAiForm::Chat ? "chatcmpl" : "cmpl", job.value);
}

std::optional<JobId> job_of_id(std::string_view id) {
  for (const std::string_view prefix : {"chatcmpl-", "cmpl-"}) {
    if (!id.starts_with(prefix)) continue;
    id.remove_prefix(prefix.size());
    break;
  }
  JobId job;
  const auto [end, failed] = std::from_chars(id.data(), id.data() + id.size(), job.value);
  if (failed != std::errc{} || end != id.data() + id.size()) return std::nullopt;
  return job;
}

OpenAiSink::OpenAiSink(std::shared_ptr<Answer> answer, const OpenAiRequest& request, ReplyHead head)
    : answer_(std::move(answer)), stream_(request.stream), head_(std::move(head)) {
  head_.form = request.form;
  head_.include_usage = request.include_usage;
  head_.want_logprobs = request.generation.sampling.want_logprob;
  head_.model = request.generation.model;  // Until it is accepted.
}

void OpenAiSink::set_job(JobId job) {
  const std::scoped_lock lock(mutex_);
  head_.id = openai_id(head_.form, job);
  if (answer_) answer_->set_id(std::to_string(job.value));
  named_ = true;
  for (GenerationEvent& event : early_) handle(event);
  early_ = {};
}

void OpenAiSink::on_event(GenerationEvent event) {
  const std::scoped_lock lock(mutex_);
  if (!named_) {
    early_.push_back(std::move(event));
    return;
  }
  handle(event);
}

void OpenAiSink::handle(GenerationEvent& event) {
  if (!answer_) return;
  if (const auto* accept = std::get_if<Accepted>(&event)) return accepted(accept->model);
  if (const auto* text = std::get_if<TextDelta>(&event)) return delta(*text);
  if (const auto* news = std::get_if<QueueNews>(&event)) return queued(*news);
  ended(std::get<Ended>(event));
}

// A stream's head goes out now and not before, so that a refusal still has its own status.
void OpenAiSink::accepted(const std::string& model) {
  head_.model = model;
  if (!stream_) {
    whole_reply_.emplace(head_);
    return;
  }
  stream_reply_.emplace(head_);
  begin_stream();
}

void OpenAiSink::begin_stream() {
  if (!std::exchange(streaming_, true)) answer_->begin_stream("text/event-stream");
}

void OpenAiSink::queued(const QueueNews& news) {
  if (!stream_) return;
  begin_stream();
  answer_->send(queue_event(news));
}

void OpenAiSink::delta(const TextDelta& delta) {
  if (whole_reply_) return whole_reply_->add(delta);
  LARES_ASSERT(stream_reply_.has_value(), "text before {} was accepted", head_.id);
  std::string out;
  stream_reply_->append(out, delta);
  answer_->send(std::move(out));
}

void OpenAiSink::ended(const Ended& ended) {
  const auto answer = std::exchange(answer_, nullptr);
  if (ended.error) {
    const ApiError error = api_error(ended);
    if (!streaming_) return answer->fail(error);
    std::string out;
    StreamReply::append_error(out, error);
    answer->send(std::move(out));
    return answer->end_stream();
  }
  LARES_ASSERT(stream_reply_ || whole_reply_, "{} ended well without being accepted", head_.id);
  if (stream_reply_) {
    std::string out;
    stream_reply_->append_end(out, ended.usage);
    answer->send(std::move(out));
    return answer->end_stream();
  }
  HttpResponse response;
  response.body = whole_reply_->body(ended.usage);
  answer->respond(std::move(response));
}

}  // namespace lares::server
