#include "server/routes.h"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/text.h"
#include "server/answer.h"
#include "server/embeddings.h"
#include "server/errors.h"
#include "server/job_routes.h"
#include "server/latent_routes.h"
#include "server/member_jobs.h"
#include "server/ollama_routes.h"
#include "server/openai_request.h"
#include "server/openai_sink.h"
#include "server/route_parts.h"
#include "server/sketch_routes.h"
#include "server/status_text.h"
#include "server/usage_reader.h"
#include "server/web_routes.h"
#include "server/work.h"
#include "server/work_headers.h"

namespace lares::server {
namespace {

class Routes;

// A path with at most one "{id}", at its end, which takes one segment.
struct Route {
  std::string_view method;
  std::string_view path;
  void (Routes::*run)(const std::shared_ptr<Answer>&, std::string_view id);
  Need need = Need::Member;
};

class Routes {
 public:
  Routes(Service& service, Metrics& metrics, RouteOptions options);

  void handle(const std::shared_ptr<Exchange>& exchange);
  // A job's request, as its member's: it has been admitted before.
  void run(const std::shared_ptr<Exchange>& exchange, CallerRef caller);

 private:
  void dispatch(const Route& route, const std::shared_ptr<Answer>& answer, std::string_view id);
  void no_route(Answer& answer, const std::string& allowed) const;
  std::shared_ptr<Answer> limited_answer(const std::shared_ptr<Exchange>& exchange,
                                         const Route& route, const CallerRef& caller);

  void chat(const std::shared_ptr<Answer>& answer, std::string_view id);
  void completion(const std::shared_ptr<Answer>& answer, std::string_view id);
  void generate(OpenAiForm form, const std::shared_ptr<Answer>& answer);
  void embeddings(const std::shared_ptr<Answer>& answer, std::string_view id);
  void ollama_embed(const std::shared_ptr<Answer>& answer, std::string_view id);
  void ollama_embeddings(const std::shared_ptr<Answer>& answer, std::string_view id);
  void embed(EmbedForm form, const std::shared_ptr<Answer>& answer);
  void cancel(const std::shared_ptr<Answer>& answer, std::string_view id);
  void jobs(const std::shared_ptr<Answer>& answer, std::string_view id);
  void models(const std::shared_ptr<Answer>& answer, std::string_view id);
  void model(const std::shared_ptr<Answer>& answer, std::string_view id);
  void health(const std::shared_ptr<Answer>& answer, std::string_view id);
  void ready(const std::shared_ptr<Answer>& answer, std::string_view id);
  void metrics_text(const std::shared_ptr<Answer>& answer, std::string_view id);
  void usage(const std::shared_ptr<Answer>& answer, std::string_view id);
  void queue(const std::shared_ptr<Answer>& answer, std::string_view id);
  void memory(const std::shared_ptr<Answer>& answer, std::string_view id);
  void loads(const std::shared_ptr<Answer>& answer, std::string_view id);
  void web(const std::shared_ptr<Answer>& answer, std::string_view id);
  void ollama(const std::shared_ptr<Answer>& answer, std::string_view id);
  void sketch(const std::shared_ptr<Answer>& answer, std::string_view id);
  void sketch_of(const std::shared_ptr<Answer>& answer, std::string_view id);
  void images(const std::shared_ptr<Answer>& answer, std::string_view id);
  void latents(const std::shared_ptr<Answer>& answer, std::string_view id);
  void webhooks(const std::shared_ptr<Answer>& answer, std::string_view id);
  void a1111(const std::shared_ptr<Answer>& answer, std::string_view id);

  friend std::vector<RouteInfo> lares::server::route_list();
  static const std::array<Route, 59> kRoutes;

  Service& service_;
  Metrics& metrics_;
  RouteOptions options_;
  std::shared_ptr<HttpMetrics> http_metrics_;
  WebRoutes web_;  // Outlives the reader, whose questions it asks.
  std::optional<UsageReader> usage_reader_;
  std::shared_ptr<MemberJobs> jobs_;
  OllamaRoutes ollama_;
  std::optional<JobRoutes> job_routes_;
  std::optional<LatentRoutes> latent_routes_;
  SketchRoutes sketches_;
};

const std::array<Route, 59> Routes::kRoutes = {{
    {"GET", "/", &Routes::web, Need::Nothing},
    {"GET", "/web/{id}", &Routes::web, Need::Nothing},
    {"GET", "/v1/me", &Routes::web},
    {"GET", "/v1/timeline", &Routes::web},
    {"GET", "/v1/usage/hours", &Routes::web},
    {"GET", "/v1/usage/requests", &Routes::web},
    {"GET", "/v1/settings", &Routes::web, Need::Admin},
    {"POST", "/v1/chat/completions", &Routes::chat},
    {"POST", "/v1/completions", &Routes::completion},
    {"POST", "/v1/embeddings", &Routes::embeddings},
    {"POST", "/api/embed", &Routes::ollama_embed},
    {"POST", "/api/embeddings", &Routes::ollama_embeddings},
    {"DELETE", "/v1/chat/completions/{id}", &Routes::cancel},
    {"DELETE", "/v1/completions/{id}", &Routes::cancel},
    {"POST", "/v1/jobs", &Routes::jobs},
    {"GET", "/v1/jobs", &Routes::jobs},
    {"GET", "/v1/jobs/{id}", &Routes::jobs},
    {"POST", "/v1/jobs/{id}", &Routes::jobs},
    {"DELETE", "/v1/jobs/{id}", &Routes::jobs},
    {"POST", "/v1/sketches", &Routes::sketch},
    {"POST", "/v1/sketches/check", &Routes::sketch},
    {"GET", "/v1/sketches/{id}", &Routes::sketch_of},
    {"DELETE", "/v1/sketches/{id}", &Routes::sketch_of},
    {"POST", "/v1/images/generations", &Routes::images},
    {"POST", "/v1/images/edits", &Routes::images},
    {"GET", "/v1/webhooks", &Routes::webhooks},
    {"GET", "/v1/latents", &Routes::latents},
    {"GET", "/v1/latents/{id}", &Routes::latents},
    {"POST", "/v1/latents/{id}", &Routes::latents},
    {"DELETE", "/v1/latents/{id}", &Routes::latents},
    {"POST", "/sdapi/v1/txt2img", &Routes::a1111},
    {"POST", "/sdapi/v1/img2img", &Routes::a1111},
    {"GET", "/sdapi/v1/progress", &Routes::a1111},
    {"GET", "/sdapi/v1/sd-models", &Routes::a1111},
    {"POST", "/sdapi/v1/interrupt", &Routes::a1111},
    {"GET", "/v1/models", &Routes::models},
    {"GET", "/v1/models/loads", &Routes::loads},
    {"GET", "/v1/models/{id}", &Routes::model},
    {"GET", "/v1/memory", &Routes::memory},
    {"GET", "/v1/usage", &Routes::usage},
    {"GET", "/v1/queue", &Routes::queue},
    {"GET", "/healthz", &Routes::health, Need::Nothing},
    {"GET", "/health", &Routes::health, Need::Nothing},
    {"GET", "/readyz", &Routes::ready, Need::Nothing},
    {"GET", "/metrics", &Routes::metrics_text, Need::Admin},
    {"POST", "/api/chat", &Routes::ollama},
    {"POST", "/api/generate", &Routes::ollama},
    {"GET", "/api/tags", &Routes::ollama},
    {"GET", "/api/ps", &Routes::ollama},
    {"POST", "/api/show", &Routes::ollama},
    {"GET", "/api/version", &Routes::ollama, Need::Nothing},
    {"POST", "/api/pull", &Routes::ollama},
    {"POST", "/api/create", &Routes::ollama},
    {"POST", "/api/push", &Routes::ollama},
    {"POST", "/api/copy", &Routes::ollama},
    {"DELETE", "/api/delete", &Routes::ollama},
    {"GET", "/api/blobs/{id}", &Routes::ollama},
    {"POST", "/api/blobs/{id}", &Routes::ollama},
    {"PUT", "/api/blobs/{id}", &Routes::ollama},
}};

Routes::Routes(Service& service, Metrics& metrics, RouteOptions options)
    : service_(service),
      metrics_(metrics),
      options_(std::move(options)),
      http_metrics_(std::make_shared<HttpMetrics>(metrics)),
      web_(options_.web, options_.access, options_.now, options_.unix_seconds),
      jobs_(std::make_shared<MemberJobs>(service)),
      ollama_(service, jobs_, {options_.now, options_.unix_seconds, options_.defaults}),
      sketches_(service, jobs_,
                {.now = options_.now,
                 .unix_seconds = options_.unix_seconds,
                 .latents = options_.latents}) {
  LARES_ASSERT(options_.now && options_.unix_seconds, "routes need clocks");
  LARES_ASSERT(options_.access, "routes need to know who asks");
  options_.access->on_revoked([jobs = std::weak_ptr(jobs_)] {
    if (const auto alive = jobs.lock()) alive->end_revoked();
  });
  if (options_.jobs != nullptr)
    job_routes_.emplace(*options_.jobs, service_, options_.defaults,
                        JobRoutes::Others{options_.latents, options_.webhooks});
  if (options_.latents != nullptr) {
    latent_routes_.emplace(*options_.latents, [access = options_.access](std::string_view name) {
      return access->member_named(name);
    });
  }
  if (options_.usage) usage_reader_.emplace(options_.usage, options_.usage_queue_max);
}

void Routes::handle(const std::shared_ptr<Exchange>& exchange) {
  const auto answer = std::make_shared<Answer>(exchange, http_metrics_, options_.now);
  const HttpRequest& request = exchange->request();
  if (request.path.starts_with("/api/")) answer->set_error_form(ErrorForm::Ollama);
  std::string_view method = request.method;
  if (method == "HEAD") method = "GET";
  const Route* chosen = nullptr;
  std::string_view chosen_id;
  std::string allowed;
  for (const Route& route : kRoutes) {
    const auto id = match(route.path, request.path);
    if (!id) continue;
    answer->set_route(route.path);
    if (route.method == method && chosen == nullptr) {
      chosen = &route;
      chosen_id = *id;
    }
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method;
    if (route.method == "GET") allowed += ", HEAD";
  }
  auto caller = options_.access->admit(request, chosen != nullptr ? chosen->need : Need::Member,
                                       options_.now());
  if (!caller) return answer->fail(caller.error());
  if (chosen == nullptr) return no_route(*answer, allowed);
  if (options_.time_limit != nullptr && job_routes_ && waits_for_answer(request, chosen->path))
    return dispatch(*chosen, limited_answer(exchange, *chosen, *caller), chosen_id);
  answer->set_caller(std::move(*caller));
  dispatch(*chosen, answer, chosen_id);
}

void Routes::dispatch(const Route& route, const std::shared_ptr<Answer>& answer,
                      std::string_view id) {
  if (job_routes_ && route.method == "POST" && makes_work(route.path)) {
    if (options_.jobs->closing()) return answer->fail(server_stopping());
    if (JobRoutes::wants_job(answer->request())) return job_routes_->wrap(answer);
  }
  (this->*route.run)(answer, id);
}

// Whoever waits for an answer that is long in coming gets a job in its place.
std::shared_ptr<Answer> Routes::limited_answer(const std::shared_ptr<Exchange>& exchange,
                                               const Route& route, const CallerRef& caller) {
  const auto make = [this, path = route.path, caller](const std::shared_ptr<Exchange>& inner) {
    const auto answer = std::make_shared<Answer>(inner, http_metrics_, options_.now);
    if (inner->request().path.starts_with("/api/")) answer->set_error_form(ErrorForm::Ollama);
    answer->set_route(path);
    answer->set_caller(caller);
    return answer;
  };
  return make(options_.time_limit->watch(
      exchange, options_.now(),
      [this, make](const std::shared_ptr<Exchange>& late) { job_routes_->take_over(make(late)); }));
}

void Routes::run(const std::shared_ptr<Exchange>& exchange, CallerRef caller) {
  const auto answer = std::make_shared<Answer>(exchange, http_metrics_, options_.now);
  const HttpRequest& request = exchange->request();
  if (request.path.starts_with("/api/")) answer->set_error_form(ErrorForm::Ollama);
  answer->set_caller(std::move(caller));
  for (const Route& route : kRoutes) {
    if (route.path != request.path || route.method != request.method) continue;
    answer->set_route(route.path);
    return (this->*route.run)(answer, "");
  }
  no_route(*answer, "");
}

void Routes::no_route(Answer& answer, const std::string& allowed) const {
  const HttpRequest& request = answer.request();
  if (!allowed.empty()) {
    ApiError error;
    error.status = 405;
    error.error_code = "method_not_allowed";
    error.message = fmt::format("{} takes {}", request.path, allowed);
    HttpResponse response = error_response(error);
    response.headers.emplace_back("Allow", allowed);
    return answer.respond(std::move(response));
  }
  std::vector<std::string_view> paths;
  for (const Route& route : kRoutes) paths.push_back(route.path);
  answer.fail(not_found(
      fmt::format("there is nothing at `{}`.{}", request.path, suggestion(request.path, paths)),
      "route_not_found"));
}

void Routes::chat(const std::shared_ptr<Answer>& answer, std::string_view) {
  generate(OpenAiForm::Chat, answer);
}

void Routes::completion(const std::shared_ptr<Answer>& answer, std::string_view) {
  generate(OpenAiForm::Completion, answer);
}

void Routes::generate(OpenAiForm form, const std::shared_ptr<Answer>& answer) {
  auto parsed = parse_openai_request(form, answer->request().body, options_.defaults);
  if (!parsed) return answer->fail(parsed.error());
  auto cls = class_for(*answer->caller(), answer->request());
  if (!cls) return answer->fail(cls.error());
  parsed->generation.cls = std::move(*cls);
  if (auto read = read_work_headers(answer->request(), parsed->generation); !read)
    return answer->fail(read.error());
  const auto events = wants_queue_events(answer->request());
  if (!events) return answer->fail(events.error());
  parsed->generation.queue_events = *events && parsed->stream;
  ReplyHead head;
  head.created = options_.unix_seconds();
  head.fingerprint = options_.fingerprint;
  const auto sink = std::make_shared<OpenAiSink>(answer, *parsed, std::move(head));
  const JobId job = jobs_->submit(std::move(parsed->generation), sink, answer->caller());
  answer->on_disconnect([this, job] { jobs_->client_left(job); });
  sink->set_job(job);
}

void Routes::embeddings(const std::shared_ptr<Answer>& answer, std::string_view) {
  embed(EmbedForm::OpenAi, answer);
}

void Routes::ollama_embed(const std::shared_ptr<Answer>& answer, std::string_view) {
  embed(EmbedForm::Ollama, answer);
}

void Routes::ollama_embeddings(const std::shared_ptr<Answer>& answer, std::string_view) {
  embed(EmbedForm::OllamaPrompt, answer);
}

void Routes::embed(EmbedForm form, const std::shared_ptr<Answer>& answer) {
  auto cls = class_for(*answer->caller(), answer->request(), kEmbeddingClass);
  if (!cls) return answer->respond(embed_error(form, cls.error()));
  auto parsed = parse_embed_request(form, answer->request().body, options_.defaults.json_depth);
  if (!parsed) return answer->respond(embed_error(form, parsed.error()));
  parsed->generation.cls = std::move(*cls);
  if (auto read = read_work_headers(answer->request(), parsed->generation); !read)
    return answer->respond(embed_error(form, read.error()));
  const auto sink = std::make_shared<EmbedSink>(answer, *parsed, options_.now);
  const JobId job = jobs_->submit(std::move(parsed->generation), sink, answer->caller());
  answer->on_disconnect([this, job] { jobs_->client_left(job); });
  sink->set_job(job);
}

void Routes::cancel(const std::shared_ptr<Answer>& answer, std::string_view id) {
  const auto job = job_of_id(id);
  if (!job || !jobs_->cancel(*job, *answer->caller())) {
    return answer->fail(
        not_found(fmt::format("no job `{}` of yours is waiting or running", id), "job_not_found"));
  }
  std::string body = "{\"id\":\"";
  append_json_escaped(body, id);
  body += "\",\"object\":\"job.cancelled\",\"deleted\":true}";
  answer->respond(json_response(std::move(body)));
}

void Routes::jobs(const std::shared_ptr<Answer>& answer, std::string_view id) {
  const HttpRequest& request = answer->request();
  // The number of a request in the loop; jobs of the journal have other ids.
  if (request.method == "DELETE" && job_of_id(id)) return cancel(answer, id);
  if (!job_routes_) {
    return answer->fail(
        not_found(fmt::format("no job `{}`: there is no journal here", id), "job_not_found"));
  }
  if (request.method == "DELETE") return job_routes_->cancel(answer, id);
  if (request.method == "POST" && !id.empty()) return job_routes_->post(answer, id);
  if (!id.empty()) return job_routes_->get(answer, id);
  if (request.method != "POST") return job_routes_->list(answer);
  job_routes_->create(answer);
}

void Routes::models(const std::shared_ptr<Answer>& answer, std::string_view) {
  std::string body = "{\"object\":\"list\",\"data\":[";
  bool first = true;
  for (const ModelStatus& model : service_.models()) {
    if (!first) body += ',';
    first = false;
    append_model(body, model);
  }
  body += "]}";
  answer->respond(json_response(std::move(body)));
}

void Routes::model(const std::shared_ptr<Answer>& answer, std::string_view id) {
  const std::vector<ModelStatus> models = service_.models();
  std::vector<std::string_view> names;
  for (const ModelStatus& model : models) {
    names.push_back(model.name);
    if (model.name != id) continue;
    std::string body;
    append_model(body, model);
    return answer->respond(json_response(std::move(body)));
  }
  ApiError error = not_found(fmt::format("there is no model `{}`.{}", id, suggestion(id, names)),
                             "model_not_found");
  error.param = "model";
  answer->fail(error);
}

void Routes::health(const std::shared_ptr<Answer>& answer, std::string_view) {
  answer->respond(json_response("{\"status\":\"ok\"}"));
}

void Routes::ready(const std::shared_ptr<Answer>& answer, std::string_view) {
  const ServiceStatus status = service_.status();
  if (status.ready) return answer->respond(json_response("{\"status\":\"ready\"}"));
  ApiError error;
  error.code = Code::Unavailable;
  error.error_code = "not_ready";
  error.message = "not ready: " + status.reason;
  answer->fail(error);
}

void Routes::metrics_text(const std::shared_ptr<Answer>& answer, std::string_view) {
  set_status_gauges(metrics_, service_.status());
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text();
  answer->respond(std::move(response));
}

void Routes::queue(const std::shared_ptr<Answer>& answer, std::string_view) {
  service_.queue([answer](const std::vector<QueueEntry>& entries) {
    const store::Member& member = answer->caller()->member;
    answer->respond(json_response(queue_json(entries, member.share.id, member.admin)));
  });
}

void Routes::memory(const std::shared_ptr<Answer>& answer, std::string_view) {
  service_.memory([answer](const MemoryStatus& status) {
    answer->respond(json_response(memory_json(status)));
  });
}

void Routes::loads(const std::shared_ptr<Answer>& answer, std::string_view) {
  answer->respond(json_response(loads_json(service_.models())));
}

void Routes::usage(const std::shared_ptr<Answer>& answer, std::string_view) {
  const std::string name = query_value(answer->request().query, "by").value_or("member");
  const auto by = usage_by(name);
  if (!by) {
    ApiError error;
    error.param = "by";
    error.message = fmt::format("`by` must be member, class, model or day, not `{}`", name);
    return answer->fail(error);
  }
  const store::Member& asks = answer->caller()->member;
  const auto of = asks.admin ? std::nullopt : std::optional(asks.share.id);
  if (usage_reader_) return usage_reader_->ask(*by, of, answer);
  ApiError error;
  error.code = Code::Unavailable;
  error.message = "this server keeps no usage ledger";
  answer->fail(error);
}

void Routes::ollama(const std::shared_ptr<Answer>& answer, std::string_view) {
  ollama_.handle(answer);
}

void Routes::sketch(const std::shared_ptr<Answer>& answer, std::string_view) {
  const bool check = answer->request().path.ends_with("/check");
  check ? sketches_.check(answer) : sketches_.submit(answer);
}

void Routes::sketch_of(const std::shared_ptr<Answer>& answer, std::string_view id) {
  answer->request().method == "DELETE" ? sketches_.cancel(answer, id) : sketches_.get(answer, id);
}

void Routes::images(const std::shared_ptr<Answer>& answer, std::string_view) {
  answer->request().path.ends_with("/edits") ? sketches_.edits(answer) : sketches_.openai(answer);
}

// What one's receivers verify signatures with.
void Routes::webhooks(const std::shared_ptr<Answer>& answer, std::string_view) {
  if (options_.webhooks == nullptr)
    return answer->fail(not_found("this server sends no webhooks", "webhooks_off"));
  const std::string secret = options_.webhooks->secret_of(answer->caller()->member.share.id);
  answer->respond(json_response(R"({"object":"webhooks","secret":")" + secret + "\"}"));
}

void Routes::latents(const std::shared_ptr<Answer>& answer, std::string_view id) {
  if (!latent_routes_)
    return answer->fail(not_found("this server keeps no latents", "latent_not_found"));
  latent_routes_->handle(answer, id);
}

void Routes::a1111(const std::shared_ptr<Answer>& answer, std::string_view) {
  std::string_view verb = answer->request().path;
  verb.remove_prefix(verb.rfind('/') + 1);
  sketches_.a1111(answer, verb);
}

void Routes::web(const std::shared_ptr<Answer>& answer, std::string_view) {
  web_.handle(answer, usage_reader_ ? &*usage_reader_ : nullptr);
}

}  // namespace

std::vector<RouteInfo> route_list() {
  std::vector<RouteInfo> list;
  for (const Route& route : Routes::kRoutes) list.push_back({route.method, route.path, route.need});
  return list;
}

Handlers make_handlers(Service& service, Metrics& metrics, RouteOptions options) {
  const auto routes = std::make_shared<Routes>(service, metrics, std::move(options));
  return {[routes](const std::shared_ptr<Exchange>& exchange) { routes->handle(exchange); },
          [routes](const std::shared_ptr<Exchange>& exchange, CallerRef caller) {
            routes->run(exchange, std::move(caller));
          }};
}

HttpHandler make_routes(Service& service, Metrics& metrics, RouteOptions options) {
  return make_handlers(service, metrics, std::move(options)).handle;
}

}  // namespace lares::server
