#include "server/sketch_routes.h"

#include <random>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/hash.h"
#include "core/text.h"
#include "server/image_form.h"
#include "server/image_stream.h"
#include "server/job_link.h"
#include "server/job_results.h"
#include "server/multipart.h"
#include "server/work_headers.h"
#include "sketch/plan.h"

namespace lares::server {
namespace {

ApiError unknown_sketch(std::string_view id) {
  ApiError error;
  error.code = Code::NotFound;
  error.error_code = "sketch_not_found";
  error.message = fmt::format(
      "there is no sketch `{}` of yours; they are kept for an hour after their end", id);
  return error;
}

std::optional<MemberId> whose(const Answer& answer) {
  const store::Member& member = answer.caller()->member;
  return member.admin ? std::nullopt : std::optional(member.share.id);
}

// "wait", "wait=10": answered at the end.
bool prefers_wait(const HttpRequest& request) {
  return request.header("prefer").starts_with("wait");
}

std::string event_text(std::string_view event, const SketchStatus& status) {
  if (event == "preview") {
    return fmt::format("event: preview\ndata: {{\"png\":\"{}\"}}\n\n", base64_of(status.preview));
  }
  if (event == "progress") {
    return fmt::format("event: progress\ndata: {{\"step\":{},\"total\":{}}}\n\n",
                       status.progress.done, status.progress.total);
  }
  return fmt::format("event: {}\ndata: {}\n\n", event, status_json(status));
}

// The job of the journal that a request is an attempt of; "" if of none.
std::string journal_id(const HttpRequest& request) {
  const auto job = request.job.lock();
  return job ? job->id() : std::string();
}

// A job's picture is the same in each of its attempts.
std::uint64_t seed_for(const HttpRequest& request) {
  if (const auto job = request.job.lock()) return mix64(hash_text(job->id())) >> 32U;
  std::random_device random;
  return random();
}

// The latents that a plan begins with, each once.
std::vector<std::string> named_latents(const sketch::Plan& plan) {
  std::vector<std::string> ids;
  for (const sketch::Node& node : plan.nodes) {
    if (node.op == "lat") ids.push_back(node.at_run.front().second);
  }
  return ids;
}

// What the journal keeps beside the answer of a job.
void keep_files(const HttpRequest& request, const SketchStatus& status) {
  const auto job = request.job.lock();
  if (!job) return;
  for (const SketchFile& file : status.files) {
    job->on_file({.name = store::result_file_name(file.index),
                  .media_type = std::string(media_type(file.medium)),
                  .status = 0,
                  .bytes = file.bytes});
  }
}

// In base64; of a job, its place, where job_results.h puts it.
std::string file_base64(const SketchFile& file, std::string_view job) {
  return job.empty() ? base64_of(file.bytes) : file_mark(file.index);
}

HttpResponse openai_images(const SketchStatus& status, const SketchAsked& asked,
                           const HttpRequest& request) {
  const std::string job = journal_id(request);
  std::string data;
  for (const SketchFile& file : status.files) {
    if (!data.empty()) data += ',';
    data += asked.response_format == "url"
                ? fmt::format("{{\"url\":\"http://{}{}\"}}", request.header("host"),
                              file_path(status, file.index, job))
                : fmt::format("{{\"b64_json\":\"{}\"}}", file_base64(file, job));
  }
  const engine::PictureSize size =
      status.files.empty() ? engine::PictureSize{} : status.files.front().size;
  return json_response(
      fmt::format("{{\"created\":{},\"data\":[{}],\"output_format\":\"png\",\"size\":\"{}x{}\"}}",
                  status.created, data, size.width, size.height));
}

HttpResponse a1111_images(const SketchStatus& status, const SketchAsked& asked,
                          std::string_view job) {
  std::string images, seeds;
  for (const SketchFile& file : status.files)
    images += fmt::format("{}\"{}\"", images.empty() ? "" : ",", file_base64(file, job));
  for (const std::uint64_t seed : asked.seeds)
    seeds += fmt::format("{}{}", seeds.empty() ? "" : ",", seed);
  const std::string info =
      fmt::format("{{\"seed\":{},\"all_seeds\":[{}]}}", asked.seeds.front(), seeds);
  return json_response(fmt::format("{{\"images\":[{}],\"parameters\":{},\"info\":{}}}", images,
                                   asked.parameters, json_quoted(info)));
}

}  // namespace

SketchRoutes::SketchRoutes(Service& service, std::shared_ptr<MemberJobs> jobs,
                           SketchJobs::Options options)
    : service_(service),
      jobs_(std::move(jobs)),
      latents_(options.latents),
      unix_seconds_(options.unix_seconds),
      sketches_(std::move(options)) {}

void SketchRoutes::start(const std::shared_ptr<Answer>& answer, SketchAsked asked,
                         SketchListener listener, Then then) {
  const MemberId member = answer->caller()->member.share.id;
  auto plan = plan_sketch(asked, catalogue_for(service_, latents_, member), member);
  if (!plan) return answer->respond(refusal_response(plan.error()));
  Generation generation;
  auto cls = class_for(*answer->caller(), answer->request(), kImageClass);
  if (!cls) return answer->fail(cls.error());
  generation.cls = std::move(*cls);
  if (auto read = read_work_headers(answer->request(), generation); !read)
    return answer->fail(read.error());
  const std::vector<std::string> named = named_latents(*plan);
  SketchPrompt prompt{std::make_shared<const sketch::Plan>(std::move(*plan)),
                      std::move(asked.inputs), asked.previews};
  if (named.empty()) {
    generation.prompt = std::move(prompt);
    return begin(answer, std::move(generation), std::move(listener), then);
  }
  const auto waiting = std::make_shared<Generation>(std::move(generation));
  waiting->prompt = std::move(prompt);
  latents_->read(named, [this, answer, waiting, listener = std::move(listener),
                         then = std::move(then)](Result<KeptLatents> read) {
    if (!read) {
      ApiError error;
      error.code = read.error().code;
      error.error_code = "latent_unreadable";
      error.message = read.error().message;
      return answer->fail(error);
    }
    std::get<SketchPrompt>(waiting->prompt).latents = std::move(*read);
    begin(answer, std::move(*waiting), listener, then);
  });
}

void SketchRoutes::begin(const std::shared_ptr<Answer>& answer, Generation generation,
                         SketchListener listener, const Then& then) {
  const auto sink = sketches_.begin(answer->caller()->member.share.id,
                                    journal_id(answer->request()), std::move(listener));
  const JobId job = jobs_->submit(std::move(generation), sink, answer->caller());
  sink->set_job(job);
  if (then) then(job);
}

void SketchRoutes::submit(const std::shared_ptr<Answer>& answer) {
  auto asked = read_sketch_request(answer->request().body);
  if (!asked) return answer->respond(refusal_response(asked.error()));
  if (!answer->request().job.expired()) return submit_job(answer, std::move(*asked));
  if (prefers_wait(answer->request())) {
    start(answer, std::move(*asked), [answer](std::string_view event, const SketchStatus& status) {
      if (event == "end") answer->respond(json_response(status_json(status)));
    });
    return;
  }
  start(answer, std::move(*asked), nullptr, [this, answer](JobId job) {
    sketches_.ask(job, std::nullopt, [answer](const SketchStatus* status) {
      HttpResponse response = json_response(status_json(*status), 202);
      response.headers.emplace_back("Location", "/v1/sketches/" + sketch_id(status->id));
      answer->respond(std::move(response));
    });
  });
}

// For the journal, which keeps the answer and the files.
void SketchRoutes::submit_job(const std::shared_ptr<Answer>& answer, SketchAsked asked) {
  start(answer, std::move(asked), [answer](std::string_view event, const SketchStatus& status) {
    if (event != "end") return;
    if (status.ended->error) return answer->fail(api_error(*status.ended));
    keep_files(answer->request(), status);
    answer->respond(json_response(status_json(status, journal_id(answer->request()))));
  });
}

// An editor asks at each key, and most of what stands there meanwhile is faulty: it may have the
// faults as an answer like any other, which no browser complains about.
void SketchRoutes::check(const std::shared_ptr<Answer>& answer) {
  const auto refuse = [&answer](const SketchRefusal& refusal) {
    HttpResponse response = refusal_response(refusal);
    if (answer->request().header("x-lares-faults") == "ok") response.status = 200;
    answer->respond(std::move(response));
  };
  auto asked = read_sketch_request(answer->request().body);
  if (!asked) return refuse(asked.error());
  const MemberId member = answer->caller()->member.share.id;
  const auto plan = plan_sketch(*asked, catalogue_for(service_, latents_, member), member);
  if (!plan) return refuse(plan.error());
  answer->respond(json_response(sketch::to_json(*plan)));
}

void SketchRoutes::get(const std::shared_ptr<Answer>& answer, std::string_view path) {
  const std::size_t slash = std::min(path.find('/'), path.size());
  const std::string_view id = path.substr(0, slash);
  const std::string_view rest = path.substr(slash);
  constexpr std::string_view kResults = "/results/";
  const auto job = job_of_sketch(id);
  if (!job) return answer->fail(unknown_sketch(id));
  if (rest == "/events") return events(answer, *job);
  if (rest.starts_with(kResults)) return result(answer, *job, rest.substr(kResults.size()));
  if (!rest.empty()) return answer->fail(unknown_sketch(path));
  sketches_.ask(*job, whose(*answer), [answer, job](const SketchStatus* status) {
    if (status == nullptr) return answer->fail(unknown_sketch(sketch_id(*job)));
    answer->respond(json_response(status_json(*status)));
  });
}

void SketchRoutes::result(const std::shared_ptr<Answer>& answer, JobId job,
                          std::string_view which) {
  const auto index = job_of_sketch(which);
  sketches_.ask(job, whose(*answer), [answer, job, index](const SketchStatus* status) {
    if (status == nullptr) return answer->fail(unknown_sketch(sketch_id(job)));
    for (const SketchFile& file : status->files) {
      if (!index || file.index != index->value) continue;
      HttpResponse response;
      response.content_type = media_type(file.medium);
      response.body = file.bytes;
      return answer->respond(std::move(response));
    }
    ApiError error;
    error.code = Code::NotFound;
    error.error_code = "result_not_found";
    error.message = fmt::format("{} has put out {} files so far; they are numbered from 0",
                                sketch_id(job), status->files.size());
    answer->fail(error);
  });
}

void SketchRoutes::events(const std::shared_ptr<Answer>& answer, JobId job) {
  sketches_.listen(
      job, whose(*answer),
      [answer](std::string_view event, const SketchStatus& status) {
        if (event == "status") answer->begin_stream("text/event-stream");
        answer->send(event_text(event, status));
        if (event == "end") answer->end_stream();
      },
      [answer, job] { answer->fail(unknown_sketch(sketch_id(job))); });
}

void SketchRoutes::cancel(const std::shared_ptr<Answer>& answer, std::string_view id) {
  const auto job = job_of_sketch(id);
  if (!job || !jobs_->cancel(*job, *answer->caller())) {
    ApiError error;
    error.code = Code::NotFound;
    error.error_code = "job_not_found";
    error.message = fmt::format("no sketch `{}` of yours is waiting or running", id);
    return answer->fail(error);
  }
  answer->respond(json_response(fmt::format(
      "{{\"id\":\"{}\",\"object\":\"job.cancelled\",\"deleted\":true}}", sketch_id(*job))));
}

// A request that is answered with its pictures, and cancelled when its client goes.
void SketchRoutes::make(
    const std::shared_ptr<Answer>& answer, Asked asked,
    std::function<HttpResponse(const SketchStatus&, const SketchAsked&)> respond) {
  if (!asked) return answer->respond(refusal_response(asked.error()));
  const auto kept = std::make_shared<SketchAsked>(*asked);
  kept->inputs.clear();
  start(
      answer, std::move(*asked),
      [answer, kept, respond = std::move(respond)](std::string_view event,
                                                   const SketchStatus& status) {
        if (event != "end") return;
        if (status.ended->error) return answer->fail(api_error(*status.ended));
        keep_files(answer->request(), status);
        answer->respond(respond(status, *kept));
      },
      [jobs = jobs_, answer](JobId job) {
        answer->on_disconnect([jobs, job] { jobs->client_left(job); });
      });
}

void SketchRoutes::openai(const std::shared_ptr<Answer>& answer) {
  const HttpRequest& request = answer->request();
  answer_openai(answer, read_openai_image(request.body, seed_for(request)), "image_generation");
}

void SketchRoutes::edits(const std::shared_ptr<Answer>& answer) {
  const HttpRequest& request = answer->request();
  std::string form;
  if (is_multipart(request.header("content-type"))) {
    auto json = image_form_json(request.header("content-type"), request.body);
    if (!json) return answer->fail(json.error());
    form = std::move(*json);
  }
  answer_openai(answer, read_openai_edit(form.empty() ? request.body : form, seed_for(request)),
                "image_edit");
}

void SketchRoutes::answer_openai(const std::shared_ptr<Answer>& answer, Asked asked,
                                 std::string_view event) {
  if (!asked || !asked->stream) {
    return make(answer, std::move(asked),
                [answer](const SketchStatus& status, const SketchAsked& what) {
                  return openai_images(status, what, answer->request());
                });
  }
  const auto stream = std::make_shared<ImageStream>(answer, event, asked->partial_images);
  start(
      answer, std::move(*asked),
      [stream](std::string_view name, const SketchStatus& status) { stream->on(name, status); },
      [jobs = jobs_, answer](JobId job) {
        answer->on_disconnect([jobs, job] { jobs->client_left(job); });
      });
}

void SketchRoutes::a1111(const std::shared_ptr<Answer>& answer, std::string_view verb) {
  if (verb == "progress") return a1111_progress(answer);
  if (verb == "sd-models") return a1111_models(answer);
  if (verb == "interrupt") return a1111_interrupt(answer);
  const HttpRequest& request = answer->request();
  make(answer, read_a1111(request.body, verb == "img2img", seed_for(request)),
       [job = journal_id(request)](const SketchStatus& status, const SketchAsked& asked) {
         return a1111_images(status, asked, job);
       });
}

void SketchRoutes::a1111_progress(const std::shared_ptr<Answer>& answer) {
  sketches_.ask_running(answer->caller()->member.share.id, [answer](const auto& running) {
    std::uint32_t done = 0, total = 0;
    std::string preview;
    for (const SketchStatus* status : running) {
      done += status->progress.done;
      total += status->progress.total;
      if (!status->preview.empty()) preview = base64_of(status->preview);
    }
    answer->respond(json_response(fmt::format(
        "{{\"progress\":{:.4f},\"eta_relative\":0.0,\"state\":{{\"job_count\":{},"
        "\"sampling_step\":{},\"sampling_steps\":{}}},\"current_image\":{},\"textinfo\":null}}",
        total == 0 ? 0.0 : static_cast<double>(done) / total, running.size(), done, total,
        preview.empty() ? "null" : '"' + preview + '"')));
  });
}

void SketchRoutes::a1111_models(const std::shared_ptr<Answer>& answer) {
  std::string models;
  for (const sketch::Model& model : service_.catalogue().catalogue.models) {
    if (model.kind != sketch::ModelKind::Image) continue;
    models += fmt::format(
        "{}{{\"title\":{},\"model_name\":{},\"hash\":\"{}\",\"sha256\":null,\"filename\":{},"
        "\"config\":null}}",
        models.empty() ? "" : ",", json_quoted(model.name), json_quoted(model.name),
        model.digest.substr(0, 10), json_quoted(model.name));
  }
  answer->respond(json_response('[' + models + ']'));
}

// One's own pictures alone.
void SketchRoutes::a1111_interrupt(const std::shared_ptr<Answer>& answer) {
  sketches_.ask_running(answer->caller()->member.share.id,
                        [answer, jobs = jobs_](const auto& running) {
                          for (const SketchStatus* status : running) jobs->client_left(status->id);
                          answer->respond(json_response("{}"));
                        });
}

}  // namespace lares::server
