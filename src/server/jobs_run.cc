// A job's attempts: handed to the routes, and what becomes of them.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/text.h"
#include "server/job_results.h"
#include "server/jobs.h"

namespace lares::server {
namespace {

// What of a request's head says something about the work.
constexpr std::string_view kKeptHeaders[] = {"x-lares-class", "x-lares-task", "x-lares-supersede",
                                             "host"};
// When there was no room for it in the loop, or an attempt failed.
constexpr Duration kWait = std::chrono::seconds(1);

store::JobState state_of(store::Outcome outcome) {
  switch (outcome) {
    case store::Outcome::Done: return store::JobState::Done;
    case store::Outcome::Cancelled: return store::JobState::Cancelled;
    default: return store::JobState::Failed;
  }
}

store::Artefact result_of(HttpResponse answer, std::size_t files = 0) {
  return {.name = std::string(store::kResult),
          .media_type = type_with_files(answer.content_type, files),
          .status = answer.status,
          .bytes = std::move(answer.body)};
}

Resume resume_from(const store::JobRecord& job, const std::vector<store::Checkpoint>& parts) {
  Resume resume{.seed = job.seed};
  for (const store::Checkpoint& part : parts) {
    const std::size_t name = part.bytes.find('\0');  // Then the tokens.
    const std::size_t size = name == std::string::npos ? 1 : part.bytes.size() - name - 1;
    if (part.part >= 1024 || size % sizeof(std::int32_t) != 0) return {};
    resume.model = part.bytes.substr(0, name);
    if (resume.tokens.size() <= part.part) resume.tokens.resize(part.part + 1);
    std::vector<std::int32_t>& tokens = resume.tokens[part.part];
    tokens.resize(size / sizeof(std::int32_t));
    if (!tokens.empty()) std::memcpy(tokens.data(), part.bytes.data() + name + 1, size);
  }
  return resume;
}

}  // namespace

std::string kept_request(const HttpRequest& request) {
  std::string out;
  for (const std::string_view name : kKeptHeaders) {
    const std::string_view value = request.header(name);
    if (!value.empty()) out += fmt::format("{}: {}\n", name, value);
  }
  return out + "\n" + request.body;
}

HttpRequest request_from(const store::JobRecord& job, std::string_view kept) {
  HttpRequest request;
  request.method = "POST";
  request.path = job.kind;
  request.id = job.id;
  request.headers.emplace_back("content-type", "application/json");
  while (!kept.empty() && kept.front() != '\n') {
    const std::string_view line = kept.substr(0, kept.find('\n'));
    const std::size_t colon = line.find(": ");
    if (colon != line.npos)
      request.headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
    kept.remove_prefix(std::min(kept.size(), line.size() + 1));
  }
  if (!kept.empty()) kept.remove_prefix(1);
  request.body = kept;
  return request;
}

void Jobs::pump() {
  while (!closing()) {
    std::optional<std::int64_t> seq;
    {
      const std::scoped_lock lock(mutex_);
      seq = queue_.next(options_.now());
      if (seq) live_.at(*seq).out = true;
    }
    if (!seq) return;
    launch(*seq);
  }
}

void Jobs::launch(std::int64_t seq) {
  struct Read {
    std::optional<store::Artefact> request;
    std::vector<store::Checkpoint> parts;
  };
  const auto read = std::make_shared<Read>();
  JournalOp op;
  op.work = [seq, read](store::Journal& journal) -> Result<> {
    read->request = TRY(journal.artefact(seq, store::kRequest));
    read->parts = TRY(journal.checkpoints(seq));
    return {};
  };
  op.done = [this, seq, read](const Result<>& done) {
    if (closing()) return;  // It is there at the next start.
    if (done && read->request) return run(seq, *read->request, read->parts);
    if (!done && done.error().code != Code::Corrupt) return put_back(seq, kWait);
    ApiError error;
    error.code = Code::Corrupt;
    error.error_code = "request_unreadable";
    error.message = done ? "the journal lacks its request" : done.error().message;
    end_unrun(seq, store::Outcome::Failed, error);
  };
  journal_->post(std::move(op));
}

void Jobs::run(std::int64_t seq, const store::Artefact& request,
               const std::vector<store::Checkpoint>& parts) {
  std::shared_ptr<JobRun> run;
  std::vector<Follower> followers;
  CallerRef caller;
  ApiError refused;
  {
    const std::scoped_lock lock(mutex_);
    Live& live = live_.at(seq);
    caller = callers_(live.job.member_id);
    if (live.cancelled) {
      refused.code = Code::Conflict;
      refused.error_code = "cancelled";
      refused.message = "the job was cancelled";
    } else if (!caller) {
      refused.code = Code::Forbidden;
      refused.error_code = "key_removed";
      refused.message = "the key that began this was taken away";
    } else {
      run = std::make_shared<JobRun>(
          *this, JobRun::Of{seq, live.job.id, fmt::format("{:x}", options_.unix_ms())},
          request_from(live.job, request.bytes), resume_from(live.job, parts));
      run->bind(run);
      live.run = run;
      live.started = false;
      followers = live.followers;
    }
  }
  if (!run) {
    return end_unrun(seq, caller ? store::Outcome::Cancelled : store::Outcome::Refused, refused);
  }
  for (const Follower& follower : followers) {
    if (!follower.told) run->follow(follower.answer, follower.after);
  }
  runner_(run, caller);
}

void Jobs::run_submitted(std::int64_t seq, JobId request) {
  bool cancelled = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(seq);
    if (found == live_.end() || !found->second.run) return;  // Over already.
    found->second.request = request;
    cancelled = found->second.cancelled;
  }
  if (cancelled) service_->cancel(request);
}

void Jobs::run_started(std::int64_t seq) {
  {
    const std::scoped_lock lock(mutex_);
    Live& live = live_.at(seq);
    live.started = true;
    live.job.state = store::JobState::Running;
    ++live.job.tries;
  }
  post(
      seq,
      [seq, ms = options_.unix_ms()](store::Journal& journal) -> Result<> {
        TRY(journal.begin_attempt(seq, ms));
        return {};
      },
      When::AtFlush);
}

void Jobs::run_progress(std::int64_t seq, store::Progress progress) {
  if (progress.advanced) {
    const std::scoped_lock lock(mutex_);
    Live& live = live_.at(seq);
    live.job.tries = 0;
    if (progress.seed) live.job.seed = progress.seed;
  }
  post(
      seq,
      [seq, progress = std::move(progress)](store::Journal& journal) {
        return journal.save_progress(seq, progress);
      },
      When::AtFlush);
}

void Jobs::run_over(std::int64_t seq) {
  std::shared_ptr<JobRun> run;
  {
    const std::scoped_lock lock(mutex_);
    Live& live = live_.at(seq);
    run = live.run;
    live.request.reset();
  }
  LARES_ASSERT(run != nullptr, "job {} was running", seq);
  attempt_over(seq, run->take());
}

void Jobs::attempt_over(std::int64_t seq, JobRun::Outcome outcome) {
  store::JobRecord job;
  bool cancelled = false;
  {
    const std::scoped_lock lock(mutex_);
    const Live& live = live_.at(seq);
    job = live.job;
    cancelled = live.cancelled;
  }
  if (!outcome.usage) {  // Its route refused it.
    // Right after a start models are still being looked at.
    if (outcome.answer.status == 503 && !cancelled) return put_back(seq, kWait);
    ApiError error;
    error.message = "the request was refused";
    store::JobEnd refused = unrun(job, store::Outcome::Refused, error);
    refused.error_code = "request_refused";
    refused.result = result_of(std::move(outcome.answer));
    return end(seq, std::move(refused), When::Now);
  }
  const bool well = outcome.usage->outcome == store::Outcome::Done;
  if (!well && !cancelled) {
    if (outcome.error_code == "server_stopping") return leave_for_next_start(seq, outcome);
    const bool fault = outcome.error && (outcome.error->code == Code::Io ||
                                         outcome.error->code == Code::Unavailable ||
                                         outcome.error->code == Code::Corrupt);
    if (outcome.error && outcome.error->code == Code::Busy)
      return put_back(seq, std::max(kWait, outcome.retry_after));
    const bool streamed = outcome.answer.status == 200;
    if (fault && !streamed &&
        job.tries + (job.state == store::JobState::Running ? 0 : 1) < options_.attempts_max) {
      return try_again(seq, outcome);
    }
  }
  store::JobEnd over;
  over.state = state_of(outcome.usage->outcome);
  if (!well) {
    over.error_code = outcome.error_code;
    if (outcome.error) over.error_message = outcome.error->message;
  }
  over.unix_ms = options_.unix_ms();
  over.usage = std::move(*outcome.usage);
  over.usage.accepted_unix_ms = job.created_unix_ms;
  over.result = result_of(std::move(outcome.answer), outcome.files.size());
  over.files = std::move(outcome.files);
  end(seq, std::move(over), When::AtFlush);
}

// Its queue place is lost to nobody: it goes back to where it was.
void Jobs::put_back(std::int64_t seq, Duration wait) {
  pay(seq);
  const std::scoped_lock lock(mutex_);
  Live& live = live_.at(seq);
  live.run.reset();
  live.out = false;
  live.job.state = store::JobState::Queued;
  queue_.put_back(seq, lane_of(live.job), options_.now() + wait);
}

void Jobs::try_again(std::int64_t seq, const JobRun::Outcome& outcome) {
  bool started = false;
  {
    const std::scoped_lock lock(mutex_);
    Live& live = live_.at(seq);
    started = live.started;
    if (!started) ++live.job.tries;
  }
  post(
      seq,
      [seq, started, ms = options_.unix_ms(), device = outcome.usage->device,
       why = outcome.error->message](store::Journal& journal) -> Result<> {
        if (!started) TRY(journal.begin_attempt(seq, ms));
        return journal.end_attempt(seq, why, device, store::Journal::Tries::Count, ms);
      },
      When::AtFlush, [this, seq] { put_back(seq, kWait); });
}

// The server stops: what is in the journal goes on when it starts again.
void Jobs::leave_for_next_start(std::int64_t seq, const JobRun::Outcome& outcome) {
  {
    const std::scoped_lock lock(mutex_);
    if (!live_.at(seq).started) return;
  }
  post(
      seq,
      [seq, ms = options_.unix_ms(), device = outcome.usage->device](store::Journal& journal) {
        return journal.end_attempt(seq, "the server was stopped", device,
                                   store::Journal::Tries::Forgive, ms);
      },
      When::AtFlush);
}

store::JobEnd Jobs::unrun(const store::JobRecord& job, store::Outcome outcome,
                          const ApiError& error) const {
  store::JobEnd end;
  end.state = state_of(outcome);
  end.error_code = error.error_code;
  end.error_message = error.message;
  end.result = result_of(error_response(error));
  end.unix_ms = options_.unix_ms();
  end.usage.accepted_unix_ms = job.created_unix_ms;
  end.usage.member_id = job.member_id;
  end.usage.member = job.member;
  end.usage.cls = job.cls;
  end.usage.outcome = outcome;
  end.usage.reason = error.error_code;
  return end;
}

void Jobs::end_unrun(std::int64_t seq, store::Outcome outcome, const ApiError& error) {
  store::JobEnd over;
  {
    const std::scoped_lock lock(mutex_);
    over = unrun(live_.at(seq).job, outcome, error);
  }
  end(seq, std::move(over), When::Now);
}

void Jobs::end(std::int64_t seq, store::JobEnd end, When when) {
  const auto over = std::make_shared<store::JobEnd>(std::move(end));
  const bool failed = over->state == store::JobState::Failed;
  post(
      seq,
      [seq, over, failed](store::Journal& journal) -> Result<> {
        store::JobEnd written = *over;
        // Each attempt's reason, where there was more than one.
        std::string before;
        const auto attempts = failed ? TRY(journal.attempts(seq)) : std::vector<store::Attempt>();
        for (const store::Attempt& attempt : attempts) {
          if (!attempt.reason.empty())
            before += fmt::format(" Attempt {}: {}.", attempt.number, attempt.reason);
        }
        if (!before.empty()) written.error_message += "." + before;
        return journal.end(seq, std::move(written));
      },
      when, [this, seq, over] { this->over(seq, *over); });
}

// It is written: whoever waits for it is told, and the next takes its place.
void Jobs::over(std::int64_t seq, const store::JobEnd& end) {
  Live live;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(seq);
    if (found == live_.end()) return;
    live = std::move(found->second);
    live_.erase(found);
    by_id_.erase(live.job.id);
    if (--members_[live.job.member_id] == 0) members_.erase(live.job.member_id);
    if (live.out) queue_.finished(lane_of(live.job));
  }
  for (const Follower& follower : live.followers) {
    if (follower.told) {
      follower.answer->end_stream();
    } else if (!live.run || !live.run->streams_to(follower.answer.get())) {
      HttpResponse response;
      response.status = end.result->status;
      response.content_type = split_type(end.result->media_type).type;
      response.body = events_after(end.result->bytes, follower.after);
      if (auto whole = with_files(response.body, end.files)) response.body = std::move(*whole);
      follower.answer->respond(std::move(response));
    }
  }
  for (const auto& done : live.when_over) done(end.state);
  pump();
}

}  // namespace lares::server
