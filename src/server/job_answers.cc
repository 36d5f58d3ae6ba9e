#include "server/job_answers.h"

#include <utility>

#include <fmt/format.h>

#include "server/job_run.h"

namespace lares::server {
namespace {

bool may_see(const Answer& answer, const store::JobRecord& job) {
  return answer.caller()->member.share.id == job.member_id;
}

}  // namespace

ApiError job_error(Code code, std::string error_code, std::string message, int status) {
  ApiError error;
  error.code = code;
  error.error_code = std::move(error_code);
  error.message = std::move(message);
  error.status = status;
  return error;
}

// What the journal could not do. A full or read-only disk is 507: the request itself is all right.
ApiError storage_error(const Error& error) {
  if (error.code != Code::Io) return job_error(error.code, "", error.message);
  return job_error(Code::Io, "storage_failed", "the job cannot be kept: " + error.message, 507);
}

void respond_json(Answer& answer, int status, std::string body, Headers headers) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  response.headers = std::move(headers);
  answer.respond(std::move(response));
}

// The caller's job of that id; or what to answer.
Result<OwnJob> find_own(store::Journal& journal, const Answer& answer, const std::string& id) {
  if (auto job = TRY(journal.find(id)); job && may_see(answer, *job))
    return OwnJob(std::move(*job));
  const auto expired = TRY(journal.find_expired(id));
  if (expired && *expired == answer.caller()->member.share.id) {
    return OwnJob(
        tl::unexpected(job_error(Code::NotFound, "job_expired",
                                 fmt::format("job `{}` has ended too long ago; what it brought "
                                             "is not kept any more (jobs.keep)",
                                             id),
                                 410)));
  }
  return OwnJob(tl::unexpected(
      job_error(Code::NotFound, "job_not_found", fmt::format("you have no job `{}`", id))));
}

void respond_result(Answer& answer, const store::Artefact& result, std::string_view after) {
  HttpResponse response;
  response.status = result.status;
  response.content_type = result.media_type;
  response.body = events_after(result.bytes, after);
  answer.respond(std::move(response));
}

ApiError result_gone() {
  return job_error(Code::NotFound, "result_expired",
                   "the result of this job is not kept any more (jobs.keep_bytes)", 410);
}

}  // namespace lares::server
