#include "server/ollama_routes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/json.h"
#include "core/text.h"
#include "server/ollama_reply.h"
#include "server/ollama_sink.h"
#include "server/work_headers.h"

namespace lares::server {
namespace {

constexpr std::string_view kLatest = ":latest";

void respond(Answer& answer, std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  answer.respond(std::move(response));
}

}  // namespace

OllamaRoutes::OllamaRoutes(Service& service, std::shared_ptr<MemberJobs> jobs,
                           OllamaOptions options)
    : service_(service), jobs_(std::move(jobs)), options_(std::move(options)) {}

void OllamaRoutes::handle(const std::shared_ptr<Answer>& answer) const {
  const std::string_view path = answer->request().path;
  if (path == "/api/chat") return generate(OllamaForm::Chat, answer);
  if (path == "/api/generate") return generate(OllamaForm::Generate, answer);
  if (path == "/api/show") return show(answer);
  if (path == "/api/tags") return respond(*answer, ollama_tags(service_.models()));
  if (path == "/api/ps") return respond(*answer, ollama_running(service_.models()));
  if (path == "/api/version") {
    return respond(*answer, fmt::format("{{\"version\":\"{}\"}}", kOllamaVersion));
  }
  ApiError error;
  error.status = 501;
  error.error_code = "not_implemented";
  error.message = fmt::format(
      "{} is not done here: put model files (GGUF) into the server's models folder, or take them "
      "out of it",
      path);
  answer->fail(error);
}

// Ollama's clients write "name:latest" for "name".
std::string OllamaRoutes::known_name(const std::string& name) const {
  if (!name.ends_with(kLatest)) return name;
  const std::vector<ModelStatus> models = service_.models();
  const bool exact = std::ranges::any_of(models, [&](const auto& m) { return m.name == name; });
  return exact ? name : name.substr(0, name.size() - kLatest.size());
}

void OllamaRoutes::generate(OllamaForm form, const std::shared_ptr<Answer>& answer) const {
  auto parsed = parse_ollama_request(form, answer->request().body, options_.defaults);
  if (!parsed) return answer->fail(parsed.error());
  auto cls = class_for(*answer->caller(), answer->request());
  if (!cls) return answer->fail(cls.error());
  Generation& generation = parsed->generation;
  generation.cls = std::move(*cls);
  if (auto read = read_work_headers(answer->request(), generation); !read) {
    return answer->fail(read.error());
  }
  OllamaHead head{.form = form,
                  .model = generation.model,
                  .created_at = rfc3339(options_.unix_seconds()),
                  .load_only = parsed->load_only && !generation.unload_only,
                  .unload_only = generation.unload_only};
  generation.model = known_name(generation.model);
  const auto sink =
      std::make_shared<OllamaSink>(answer, std::move(head), parsed->stream, options_.now);
  const JobId job = jobs_->submit(std::move(generation), sink, answer->caller());
  answer->on_disconnect([jobs = jobs_, job] { jobs->client_left(job); });
  sink->set_job(job);
}

void OllamaRoutes::show(const std::shared_ptr<Answer>& answer) const {
  ApiError error;
  const auto body = json::parse(answer->request().body);
  json::Problem problem;
  const json::Value empty;
  const json::Fields fields(body ? *body : empty, "", problem);
  const std::string* name = fields.string("model");
  if (name == nullptr) name = fields.string("name");  // Older clients.
  if (name == nullptr) {
    error.param = "model";
    error.message = problem ? problem.message : "model is required";
    return answer->fail(error);
  }
  const std::string wanted = known_name(*name);
  const std::vector<ModelStatus> models = service_.models();
  std::vector<std::string_view> names;
  for (const ModelStatus& model : models) {
    if (model.name == wanted) return respond(*answer, ollama_show(model));
    names.push_back(model.name);
  }
  error.code = Code::NotFound;
  error.error_code = "model_not_found";
  error.message = fmt::format("model '{}' not found.{}", *name, suggestion(wanted, names));
  answer->fail(error);
}

}  // namespace lares::server
