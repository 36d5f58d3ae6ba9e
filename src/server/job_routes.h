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

#include "core/json.h"
#include "server/answer.h"
#include "server/jobs.h"
#include "server/latents.h"
#include "server/openai_request.h"
#include "server/webhooks.h"

namespace lares::server {

class JobRoutes {
 public:
  // `jobs` and `service` must outlive every request.
  // And `others`, which may be null.
  struct Others {
    const Latents* latents = nullptr;
    const Webhooks* webhooks = nullptr;  // Null: nobody can be told of a job's end.
  };
  JobRoutes(Jobs& jobs, Service& service, RequestDefaults defaults, Others others)
      : jobs_(jobs), service_(service), defaults_(defaults), others_(others) {}

  // Whether the request, to a path that makes work, is to be a job.
  static bool wants_job(const HttpRequest& request);
  void wrap(const std::shared_ptr<Answer>& answer) const;
  // The same for a request that has waited too long: 202.
  void take_over(const std::shared_ptr<Answer>& answer) const;

  void create(const std::shared_ptr<Answer>& answer) const;  // POST /v1/jobs
  void list(const std::shared_ptr<Answer>& answer) const;    // GET /v1/jobs
  // GET /v1/jobs/ID, /v1/jobs/ID/result, /v1/jobs/ID/result/0, /v1/jobs/ID/events
  void get(const std::shared_ptr<Answer>& answer, std::string_view rest) const;
  // DELETE /v1/jobs/ID
  void cancel(const std::shared_ptr<Answer>& answer, std::string_view id) const;
  // POST /v1/jobs/ID/retry, /v1/jobs/ID/cancel
  void post(const std::shared_ptr<Answer>& answer, std::string_view rest) const;

 private:
  struct Wanted {
    std::string path{}, body{};
    bool async = false;     // 202 rather than the answer.
    std::string webhook{};  // Who is told of its end.
  };
  // What of a request to /v1/jobs says who is told. False: it is wrong, and was answered.
  bool read_webhook(const std::shared_ptr<Answer>& answer, const json::Value& body,
                    Wanted& wanted) const;
  // Whether it cannot be done; then it was answered as its own path would.
  [[nodiscard]] bool refuse(const std::shared_ptr<Answer>& answer, const Wanted& wanted) const;
  void accept(const std::shared_ptr<Answer>& answer, Wanted wanted) const;
  void accepted(const std::shared_ptr<Answer>& answer, const Wanted& wanted,
                const std::string& digest, Result<Jobs::Found> found) const;
  void show(const std::shared_ptr<Answer>& answer, const std::string& id) const;
  // One of its files; or, if it has one alone and JSON is not asked for, that; or its answer.
  void result(const std::shared_ptr<Answer>& answer, const std::string& id,
              std::optional<std::uint32_t> file) const;
  void events(const std::shared_ptr<Answer>& answer, const std::string& id) const;
  void retry(const std::shared_ptr<Answer>& answer, const std::string& id) const;

  Jobs& jobs_;
  Service& service_;
  const RequestDefaults defaults_;
  const Others others_;
};

}  // namespace lares::server
