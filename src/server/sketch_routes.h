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
  // `service` must outlive it, and what `options` refer to.
  SketchRoutes(Service& service, std::shared_ptr<MemberJobs> jobs, SketchJobs::Options options);

  // POST /v1/sketches, /v1/sketches/check
  void submit(const std::shared_ptr<Answer>& answer);
  void check(const std::shared_ptr<Answer>& answer);
  // GET /v1/sketches/{id}, {id}/events, {id}/results/{n}
  void get(const std::shared_ptr<Answer>& answer, std::string_view id);
  void cancel(const std::shared_ptr<Answer>& answer, std::string_view id);
  // POST /v1/images/generations, /v1/images/edits
  void openai(const std::shared_ptr<Answer>& answer);
  void edits(const std::shared_ptr<Answer>& answer);
  // /sdapi/v1/txt2img, img2img, progress, sd-models, interrupt
  void a1111(const std::shared_ptr<Answer>& answer, std::string_view verb);

 private:
  using Then = std::function<void(JobId)>;
  // Plans and submits; `listener` answers at the end. `then` gets the job, unless it was refused:
  // then the answer has been given. At once, or once the latents that it names have been read.
  void start(const std::shared_ptr<Answer>& answer, SketchAsked asked, SketchListener listener,
             Then then = {});
  void begin(const std::shared_ptr<Answer>& answer, Generation generation, SketchListener listener,
             const Then& then);
  void make(const std::shared_ptr<Answer>& answer, Asked asked,
            std::function<HttpResponse(const SketchStatus&, const SketchAsked&)> respond);
  void answer_openai(const std::shared_ptr<Answer>& answer, Asked asked, std::string_view event);
  void submit_job(const std::shared_ptr<Answer>& answer, SketchAsked asked);
  void events(const std::shared_ptr<Answer>& answer, JobId job);
  void result(const std::shared_ptr<Answer>& answer, JobId job, std::string_view which);
  void a1111_progress(const std::shared_ptr<Answer>& answer);
  void a1111_models(const std::shared_ptr<Answer>& answer);
  void a1111_interrupt(const std::shared_ptr<Answer>& answer);

  Service& service_;
  std::shared_ptr<MemberJobs> jobs_;
  Latents* const latents_;
  std::function<std::uint64_t()> unix_seconds_;
  SketchJobs sketches_;
};

}  // namespace lares::server
