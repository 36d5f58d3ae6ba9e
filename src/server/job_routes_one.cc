// What clients ask of one job.
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"
#include "server/job_answers.h"
#include "server/job_json.h"
#include "server/job_results.h"
#include "server/job_routes.h"

namespace lares::server {
namespace {

struct Brought {
  std::optional<store::Artefact> result;
  std::uint32_t files = 0;  // That there were.
};

Result<Brought> find_result(store::Journal& journal, std::int64_t seq,
                            std::optional<std::uint32_t> file, bool json) {
  Brought brought;
  const auto answer = TRY(journal.artefact(seq, store::kResult));
  if (!answer) return brought;
  brought.files = split_type(answer->media_type).files;
  if (!file && brought.files == 1 && !json) file = 0;
  if (!file) {
    brought.result = TRY(read_answer(journal, seq));
  } else if (*file < brought.files) {
    brought.result = TRY(journal.artefact(seq, store::result_file_name(*file)));
    if (brought.result) brought.result->status = 200;
  }
  return brought;
}

}  // namespace

void JobRoutes::show(const std::shared_ptr<Answer>& answer, const std::string& id) const {
  struct Read {
    OwnJob job;
    std::vector<store::Attempt> attempts;
    std::vector<store::ArtefactHead> artefacts;
    std::optional<store::Webhook> webhook;
  };
  const auto read = std::make_shared<Read>();
  JournalOp op;
  op.work = [read, answer, id](store::Journal& journal) -> Result<> {
    read->job = TRY(find_own(journal, *answer, id));
    if (!read->job) return {};
    read->attempts = TRY(journal.attempts(read->job->seq));
    read->artefacts = TRY(journal.artefacts(read->job->seq));
    read->webhook = TRY(journal.webhook(read->job->seq));
    return {};
  };
  op.done = [this, read, answer](const Result<>& done) {
    if (!done) return answer->fail(storage_error(done.error()));
    if (!read->job) return answer->fail(read->job.error());
    const store::JobRecord& job = *read->job;
    JobPlace place;
    place.position = jobs_.position(job.seq);
    const auto request = jobs_.request_of(job.seq);
    if (!request) {
      return respond_json(*answer, 200,
                          job_json(job, place, {read->attempts, read->artefacts, read->webhook}));
    }
    // Where it stands with the scheduler, the loop knows.
    service_.queue([read, answer, request](const std::vector<QueueEntry>& entries) {
      JobPlace there;
      for (const QueueEntry& entry : entries) {
        if (entry.id != *request || entry.running) continue;
        there.position = entry.position;
        there.reason = entry.reason;
        there.estimate = entry.estimate;
      }
      respond_json(*answer, 200, job_json(*read->job, there, {read->attempts, {}, read->webhook}));
    });
  };
  jobs_.journal().post(std::move(op));
}

void JobRoutes::result(const std::shared_ptr<Answer>& answer, const std::string& id,
                       std::optional<std::uint32_t> file) const {
  struct Read {
    OwnJob job;
    Brought brought;
  };
  const auto read = std::make_shared<Read>();
  const bool json = answer->request().header("accept").starts_with("application/json");
  JournalOp op;
  op.work = [read, answer, id, file, json](store::Journal& journal) -> Result<> {
    read->job = TRY(find_own(journal, *answer, id));
    if (read->job) read->brought = TRY(find_result(journal, read->job->seq, file, json));
    return {};
  };
  op.done = [read, answer, file](const Result<>& done) {
    if (!done) return answer->fail(storage_error(done.error()));
    if (!read->job) return answer->fail(read->job.error());
    const store::JobRecord& job = *read->job;
    answer->set_id(job.id);
    if (!store::is_over(job.state)) {
      ApiError error = job_error(Code::Conflict, "job_not_over",
                                 fmt::format("job {} is {}; its result is there once it is done "
                                             "(GET /v1/jobs/{}/events says when)",
                                             job.id, store::job_state_name(job.state), job.id));
      error.retry_after = 1;
      return answer->fail(error);
    }
    if (job.state == store::JobState::Cancelled) {
      return answer->fail(
          job_error(Code::Conflict, "job_cancelled", "this job was cancelled; it has no result"));
    }
    const Brought& brought = read->brought;
    if (brought.result) return respond_result(*answer, *brought.result);
    if (!file || *file < brought.files) return answer->fail(result_gone());
    answer->fail(job_error(
        Code::NotFound, "result_not_found",
        fmt::format("this job put out {} files; they are numbered from 0", brought.files)));
  };
  jobs_.journal().post(std::move(op));
}

void JobRoutes::events(const std::shared_ptr<Answer>& answer, const std::string& id) const {
  std::int64_t after = 0;
  if (const std::string_view last = answer->request().header("last-event-id"); !last.empty()) {
    const auto [end, failed] = std::from_chars(last.data(), last.data() + last.size(), after);
    if (failed != std::errc{} || end != last.data() + last.size()) {
      return answer->fail(job_error(Code::Invalid, "last_event_id_invalid",
                                    "Last-Event-ID must be the id of one of this job's events"));
    }
  }
  struct Read {
    OwnJob job;
    std::vector<store::JobEvent> events;
  };
  const auto read = std::make_shared<Read>();
  JournalOp op;
  op.work = [read, answer, id, after](store::Journal& journal) -> Result<> {
    read->job = TRY(find_own(journal, *answer, id));
    if (read->job) read->events = TRY(journal.events(read->job->seq, after));
    return {};
  };
  op.done = [this, read, answer, after](const Result<>& done) {
    if (!done) return answer->fail(storage_error(done.error()));
    if (!read->job) return answer->fail(read->job.error());
    answer->set_id(read->job->id);
    answer->begin_stream("text/event-stream");
    std::string text;
    for (const store::JobEvent& event : read->events) text += job_event_text(event);
    if (!text.empty()) answer->send(std::move(text));
    if (store::is_over(read->job->state)) return answer->end_stream();
    jobs_.follow_events(read->job->seq, answer,
                        read->events.empty() ? after : read->events.back().number);
  };
  jobs_.journal().post(std::move(op));
}

void JobRoutes::cancel(const std::shared_ptr<Answer>& answer, std::string_view id) const {
  const auto read = std::make_shared<OwnJob>();
  JournalOp op;
  op.work = [read, answer, id = std::string(id)](store::Journal& journal) -> Result<> {
    *read = TRY(find_own(journal, *answer, id));
    return {};
  };
  op.done = [this, read, answer](const Result<>& done) {
    if (!done) return answer->fail(storage_error(done.error()));
    if (!*read) return answer->fail(read->error());
    const store::JobRecord& job = **read;
    answer->set_id(job.id);
    const auto ended = [answer, id = job.id](const Result<store::JobState>& state) {
      if (state && *state == store::JobState::Cancelled) {
        return respond_json(
            *answer, 200,
            fmt::format(
                R"({{"id":{},"object":"job.cancelled","deleted":true,"state":"cancelled"}})",
                json_quoted(id)));
      }
      answer->fail(
          job_error(Code::Conflict, "job_over", fmt::format("job {} is over already", id)));
    };
    if (job.state == store::JobState::Cancelled) return ended(job.state);
    if (store::is_over(job.state)) return ended(job.state);
    jobs_.cancel(job.seq, ended);
  };
  jobs_.journal().post(std::move(op));
}

void JobRoutes::retry(const std::shared_ptr<Answer>& answer, const std::string& id) const {
  if (jobs_.closing()) {
    return answer->fail(job_error(Code::Unavailable, "server_stopping", "the server is stopping"));
  }
  const auto read = std::make_shared<OwnJob>();
  JournalOp op;
  op.work = [read, answer, id](store::Journal& journal) -> Result<> {
    *read = TRY(find_own(journal, *answer, id));
    return {};
  };
  op.done = [this, read, answer](const Result<>& done) {
    if (!done) return answer->fail(storage_error(done.error()));
    if (!*read) return answer->fail(read->error());
    store::JobRecord job = **read;
    jobs_.retry(job, [this, answer, job](const Result<>& written) mutable {
      if (!written && written.error().code == Code::Conflict) {
        return answer->fail(job_error(
            Code::Conflict, "job_not_retryable",
            fmt::format("job {} is {}; only one that failed or was cancelled is tried again",
                        job.id, store::job_state_name(job.state))));
      }
      if (!written) return answer->fail(storage_error(written.error()));
      job.state = store::JobState::Queued;
      job.error_code = job.error_message = "";
      job.ended_unix_ms = 0;
      answer->set_id(job.id);
      JobPlace place;
      place.position = jobs_.position(job.seq);
      respond_json(*answer, 202, job_json(job, place), {{"Location", "/v1/jobs/" + job.id}});
    });
  };
  jobs_.journal().post(std::move(op));
}

}  // namespace lares::server
