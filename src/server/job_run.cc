#include "server/job_run.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace lares::server {

JobRun::JobRun(JobRunOwner& owner, Of of, HttpRequest request, Resume resume)
    : owner_(owner), of_(std::move(of)), request_(std::move(request)), resume_(std::move(resume)) {}

JobRun::Outcome JobRun::take() {
  const std::scoped_lock lock(mutex_);
  return std::move(outcome_);
}

void JobRun::on_submit() {
  const std::scoped_lock lock(mutex_);
  submitted_ = true;
}

void JobRun::on_file(store::Artefact file) {
  const std::scoped_lock lock(mutex_);
  outcome_.files.push_back(std::move(file));
}

void JobRun::on_ended(const Ended& ended) {
  const std::scoped_lock lock(mutex_);
  outcome_.error = ended.error;
  outcome_.error_code = ended.error_code;
  outcome_.retry_after = ended.retry_after;
}

void JobRun::usage(store::UsageRow row) {
  std::unique_lock lock(mutex_);
  outcome_.usage = std::move(row);
  tell_if_over(lock);
}

void JobRun::respond(HttpResponse response) {
  std::unique_lock lock(mutex_);
  outcome_.answer = std::move(response);
  answered_ = true;
  tell_if_over(lock);
}

void JobRun::end_stream() {
  std::unique_lock lock(mutex_);
  answered_ = true;
  const auto followers = followers_;
  tell_if_over(lock);
  for (const auto& [answer, after] : followers) answer->end_stream();
}

// The owner is told without the lock: it takes the outcome.
void JobRun::tell_if_over(std::unique_lock<std::mutex>& lock) {
  if (told_ || !answered_ || (submitted_ && !outcome_.usage)) return;
  told_ = true;
  lock.unlock();
  owner_.run_over(of_.seq);
}

void JobRun::begin_stream(int status, std::string content_type, Headers /*headers*/) {
  std::unique_lock lock(mutex_);
  outcome_.answer.status = status;
  outcome_.answer.content_type = std::move(content_type);
  streaming_ = true;
  // A stream that is opened again goes on behind the last event its client saw.
  numbered_ = outcome_.answer.content_type == "text/event-stream";
  for (const auto& [answer, after] : followers_) answer->begin_stream(outcome_.answer.content_type);
}

void JobRun::send(std::string data) {
  const std::scoped_lock lock(mutex_);
  std::string out;
  if (!numbered_) {
    out = std::move(data);
  } else {
    std::string_view rest = data;
    while (!rest.empty()) {
      const std::size_t end = rest.find("\n\n");
      const std::string_view event = rest.substr(0, end == rest.npos ? end : end + 2);
      fmt::format_to(std::back_inserter(out), "id: {}.{}\n{}", of_.tag, ++events_, event);
      rest.remove_prefix(event.size());
    }
  }
  outcome_.answer.body += out;
  for (const auto& [answer, after] : followers_) answer->send(out);
}

void JobRun::follow(std::shared_ptr<Answer> answer, const std::string& after) {
  const std::scoped_lock lock(mutex_);
  if (answered_) return;
  if (streaming_) {
    answer->begin_stream(outcome_.answer.content_type);
    answer->send(std::string(events_after(outcome_.answer.body, after)));
  }
  followers_.emplace_back(std::move(answer), after);
}

bool JobRun::streams_to(const Answer* answer) {
  const std::scoped_lock lock(mutex_);
  return streaming_ && std::ranges::any_of(followers_, [&](const auto& follower) {
           return follower.first.get() == answer;
         });
}

void JobRun::unfollow(const Answer* answer) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(followers_, [&](const auto& f) { return f.first.get() == answer; });
}

std::string_view events_after(std::string_view stream, std::string_view id) {
  if (id.empty()) return stream;
  const std::string line = fmt::format("id: {}\n", id);
  const std::size_t at = stream.starts_with(line) ? 0 : stream.find("\n" + line);
  if (at == stream.npos) return stream;
  const std::size_t end = stream.find("\n\n", at + 1);
  return end == stream.npos ? std::string_view() : stream.substr(end + 2);
}

}  // namespace lares::server
