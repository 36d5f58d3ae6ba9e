// The HTTP interface of the journal: /v1/jobs, and requests that ask for a job in their headers.
//
//   Idempotency-Key: KEY      the same key and body are the same job, and get its answer
//   Prefer: respond-async     the answer is 202 and names the job
//
// I/O thread; never blocks.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/answer.h"
#include "server/jobs.h"
#include "server/openai_request.h"

namespace lares::server {

class JobRoutes {
 public:
  // `jobs` and `service` must outlive every request.
  JobRoutes(Jobs& jobs, Service& service, RequestDefaults defaults)
      : jobs_(jobs), service_(service), defaults_(defaults) {}

  // Whether the request, to a path that makes work, is to be a job.
  static bool wants_job(const HttpRequest& request);
  void wrap(const std::shared_ptr<Answer>& answer) const;

  void create(const std::shared_ptr<Answer>& answer) const;  // POST /v1/jobs
  void list(const std::shared_ptr<Answer>& answer) const;    // GET /v1/jobs
  // GET /v1/jobs/ID, /v1/jobs/ID/result, /v1/jobs/ID/events
  void get(const std::shared_ptr<Answer>& answer, std::string_view rest) const;
  // DELETE /v1/jobs/ID
  void cancel(const std::shared_ptr<Answer>& answer, std::string_view id) const;
  // POST /v1/jobs/ID/retry, /v1/jobs/ID/cancel
  void post(const std::shared_ptr<Answer>& answer, std::string_view rest) const;

 private:
  struct Wanted {
    std::string path, body;
    bool async = false;  // 202 rather than the answer.
  };
  void accept(const std::shared_ptr<Answer>& answer, Wanted wanted) const;
  void accepted(const std::shared_ptr<Answer>& answer, const Wanted& wanted,
                const std::string& digest, Result<Jobs::Found> found) const;
  void show(const std::shared_ptr<Answer>& answer, const std::string& id) const;
  void result(const std::shared_ptr<Answer>& answer, const std::string& id) const;
  void events(const std::shared_ptr<Answer>& answer, const std::string& id) const;
  void retry(const std::shared_ptr<Answer>& answer, const std::string& id) const;

  Jobs& jobs_;
  Service& service_;
  const RequestDefaults defaults_;
};

}  // namespace lares::server
