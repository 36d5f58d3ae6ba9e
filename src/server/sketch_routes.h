// The routes that make pictures: sketches, OpenAI's images, A1111's txt2img family. As routes.h
// says of all.
#pragma once

#include <memory>
#include <string_view>

#include "server/answer.h"
#include "server/member_jobs.h"
#include "server/service.h"
#include "server/sketch_jobs.h"
#include "server/sketch_request.h"

namespace lares::server {

class SketchRoutes {
 public:
  // `service` must outlive it.
  SketchRoutes(Service& service, std::shared_ptr<MemberJobs> jobs, SketchJobs::Options options);

  // POST /v1/sketches, /v1/sketches/check
  void submit(const std::shared_ptr<Answer>& answer);
  void check(const std::shared_ptr<Answer>& answer);
  // GET /v1/sketches/{id}, {id}/events, {id}/results/{n}
  void get(const std::shared_ptr<Answer>& answer, std::string_view id);
  void cancel(const std::shared_ptr<Answer>& answer, std::string_view id);
  // POST /v1/images/generations
  void openai(const std::shared_ptr<Answer>& answer);
  // /sdapi/v1/txt2img, img2img, progress, sd-models, interrupt
  void a1111(const std::shared_ptr<Answer>& answer, std::string_view verb);

 private:
  using Finish = std::function<void(const SketchStatus&)>;
  // Plans and submits; `finish` answers at the end. The job, unless it was refused: then the answer
  // has been given.
  std::optional<JobId> start(const std::shared_ptr<Answer>& answer, SketchAsked asked,
                             SketchListener listener);
  void make(const std::shared_ptr<Answer>& answer, Asked asked,
            std::function<HttpResponse(const SketchStatus&, const SketchAsked&)> respond);
  void events(const std::shared_ptr<Answer>& answer, JobId job);
  void result(const std::shared_ptr<Answer>& answer, JobId job, std::string_view which);
  void a1111_progress(const std::shared_ptr<Answer>& answer);
  void a1111_models(const std::shared_ptr<Answer>& answer);
  void a1111_interrupt(const std::shared_ptr<Answer>& answer);
  std::uint64_t new_seed();

  Service& service_;
  std::shared_ptr<MemberJobs> jobs_;
  std::function<std::uint64_t()> unix_seconds_;
  SketchJobs sketches_;
};

}  // namespace lares::server
