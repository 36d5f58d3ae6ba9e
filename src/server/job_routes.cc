#include "server/job_routes.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/json.h"
#include "core/text.h"
#include "server/image_form.h"
#include "server/job_answers.h"
#include "server/job_json.h"
#include "server/multipart.h"
#include "server/sketch_request.h"
#include "server/work.h"
#include "server/work_headers.h"
#include "store/key.h"

namespace lares::server {
namespace {

constexpr std::size_t kKeyBytesMax = 255;
constexpr std::string_view kFile = "result/";
constexpr std::uint32_t kPage = 50, kPageMax = 500;

// "abc" of "abc/events", and "events".
std::pair<std::string, std::string> split_rest(std::string_view rest) {
  const std::size_t slash = rest.find('/');
  if (slash == rest.npos) return {std::string(rest), ""};
  return {std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1))};
}

}  // namespace

bool JobRoutes::wants_job(const HttpRequest& request) {
  return !request.header("idempotency-key").empty() ||
         request.header("prefer").find("respond-async") != std::string_view::npos;
}

void JobRoutes::wrap(const std::shared_ptr<Answer>& answer) const {
  const HttpRequest& request = answer->request();
  const bool async = request.header("prefer").find("respond-async") != std::string_view::npos;
  std::string body = request.body;
  // A form is kept as the JSON that it stands for: its boundary is another each time.
  if (is_multipart(request.header("content-type"))) {
    auto json = image_form_json(request.header("content-type"), request.body);
    if (!json) return answer->fail(json.error());
    body = std::move(*json);
  }
  accept(answer, {request.path, std::move(body), async});
}

void JobRoutes::take_over(const std::shared_ptr<Answer>& answer) const {
  const HttpRequest& request = answer->request();
  accept(answer, {request.path, request.body, true});
}

void JobRoutes::create(const std::shared_ptr<Answer>& answer) const {
  // What it wraps may be as deep as a body of its own, and is two levels further in.
  auto parsed = json::parse(answer->request().body, {.depth = defaults_.json_depth + 2});
  if (!parsed) return answer->fail(unreadable_body(std::move(parsed.error())));
  json::Problem problem;
  const json::Fields body(*parsed, "", problem);
  Wanted wanted{.async = true};
  if (!read_webhook(answer, *parsed, wanted)) return;
  // A sketch is its own request.
  if (body.find("sketch") != nullptr && body.find("request") == nullptr) {
    json::Object rest;
    for (const auto& [name, value] : *parsed->as<json::Object>()) {
      if (name != "webhook") rest.emplace_back(name, value);
    }
    wanted.path = "/v1/sketches";
    wanted.body = json::to_text(json::Value(std::move(rest)));
    return accept(answer, std::move(wanted));
  }
  const json::Value* request = body.find("request");
  const json::Value empty;
  const json::Fields fields(request != nullptr ? *request : empty, "request", problem);
  const std::string* path = fields.string("path");
  const json::Value* wrapped = fields.find("body");
  if (!problem && request == nullptr) body.note("request", "is required, or `sketch`");
  if (!problem && path == nullptr) fields.note("path", "is required: " + work_paths());
  if (!problem && !makes_work(*path)) fields.note("path", "must be one of " + work_paths());
  if (!problem && wrapped == nullptr) fields.note("body", "is required: the request itself");
  if (!problem) {
    wanted.path = *path;
    wanted.body = json::to_text(*wrapped);
    return accept(answer, std::move(wanted));
  }
  ApiError error = job_error(Code::Invalid, "", problem.message);
  error.param = problem.param;
  answer->fail(error);
}

bool JobRoutes::read_webhook(const std::shared_ptr<Answer>& answer, const json::Value& body,
                             Wanted& wanted) const {
  const json::Value* webhook = body.find("webhook");
  if (webhook == nullptr || webhook->is_null()) return true;
  json::Problem problem;
  const json::Fields fields(*webhook, "webhook", problem);
  const std::string* url = fields.string("url");
  if (!problem && url == nullptr) fields.note("url", "is required: who is told of the job's end");
  ApiError error = job_error(Code::Invalid, "", problem.message);
  error.param = problem.param;
  if (!problem) {
    const auto good = others_.webhooks == nullptr
                          ? fail(Code::Unsupported, "is taken by no server without a journal")
                          : others_.webhooks->check(*url);
    if (good) {
      wanted.webhook = *url;
      return true;
    }
    error = job_error(Code::Invalid, "webhook_refused", "webhook.url " + good.error().message);
    error.param = "webhook.url";
  }
  answer->fail(error);
  return false;
}

bool JobRoutes::refuse(const std::shared_ptr<Answer>& answer, const Wanted& wanted) const {
  if (!makes_pictures(wanted.path)) {
    const auto wrong = check_work(wanted.path, wanted.body, defaults_);
    if (wrong) answer->fail(*wrong);
    return wrong.has_value();
  }
  const Asked asked = read_picture_request(wanted.path, wanted.body, 0);
  if (!asked) {
    answer->respond(refusal_response(asked.error()));
    return true;
  }
  const MemberId member = answer->caller()->member.share.id;
  const auto plan = plan_sketch(*asked, catalogue_for(service_, others_.latents, member), member);
  if (!plan) answer->respond(refusal_response(plan.error()));
  return !plan;
}

void JobRoutes::accept(const std::shared_ptr<Answer>& answer, Wanted wanted) const {
  const HttpRequest& request = answer->request();
  const std::string_view key = request.header("idempotency-key");
  if (key.size() > kKeyBytesMax) {
    return answer->fail(
        job_error(Code::Invalid, "idempotency_key_too_long",
                  fmt::format("Idempotency-Key may have {} bytes at most", kKeyBytesMax)));
  }
  auto cls = class_for(*answer->caller(), request,
                       makes_embeddings(wanted.path) ? kEmbeddingClass
                       : makes_pictures(wanted.path) ? kImageClass
                                                     : "");
  if (!cls) return answer->fail(cls.error());
  if (refuse(answer, wanted)) return;
  Generation headers;
  if (auto read = read_work_headers(request, headers); !read) return answer->fail(read.error());
  auto id = store::random_id("job_");
  if (!id) return answer->fail(job_error(id.error().code, "", id.error().message));
  const MemberShare& member = answer->caller()->member.share;
  HttpRequest kept;
  kept.headers = request.headers;
  kept.body = wanted.body;
  store::NewJob job;
  job.id = std::move(*id);
  job.member_id = member.id;
  job.member = member.name;
  job.cls = std::move(*cls);
  job.kind = wanted.path;
  job.idempotency_key = key;
  job.request = {.name = std::string(store::kRequest),
                 .media_type = "application/x-lares-request",
                 .status = 0,
                 .bytes = kept_request(kept)};
  // The same request, however its JSON is written, and whatever name the server was called by.
  std::erase_if(kept.headers, [](const auto& header) { return header.first == "host"; });
  const auto body = json::parse(wanted.body, {.depth = defaults_.json_depth});
  kept.body = body ? json::to_text(*body) : wanted.body;
  job.webhook = wanted.webhook;
  job.request_digest = store::digest(wanted.path + "\n" + kept_request(kept) +
                                     (wanted.webhook.empty() ? "" : "\n" + wanted.webhook));
  job.unix_ms = jobs_.options().unix_ms();
  const std::string digest = job.request_digest;
  jobs_.accept(std::move(job),
               [this, answer, wanted = std::move(wanted), digest](Result<Jobs::Found> found) {
                 accepted(answer, wanted, digest, std::move(found));
               });
}

void JobRoutes::accepted(const std::shared_ptr<Answer>& answer, const Wanted& wanted,
                         const std::string& digest, Result<Jobs::Found> found) const {
  if (!found) return answer->fail(storage_error(found.error()));
  const store::JobRecord& job = found->job;
  if (job.request_digest != digest) {
    return answer->fail(
        job_error(Code::Conflict, "idempotency_key_reused",
                  fmt::format("this Idempotency-Key belongs to job {}, whose request was "
                              "another; send a new key with a new request",
                              job.id)));
  }
  answer->set_id(job.id);
  if (wanted.async) {
    JobPlace place;
    place.position = jobs_.position(job.seq);
    Headers headers{{"Location", "/v1/jobs/" + job.id}};
    if (!answer->request().header("prefer").empty())
      headers.emplace_back("Preference-Applied", "respond-async");
    return respond_json(*answer, 202, job_json(job, place), std::move(headers));
  }
  const std::string after(answer->request().header("last-event-id"));
  if (!store::is_over(job.state)) return jobs_.follow(job.seq, answer, after);
  if (found->result) return respond_result(*answer, *found->result, after);
  answer->fail(result_gone());
}

void JobRoutes::list(const std::shared_ptr<Answer>& answer) const {
  const std::string& query = answer->request().query;
  store::JobFilter filter;
  const store::Member& asks = answer->caller()->member;
  const bool all = query_value(query, "all").value_or("") == "true";
  if (all && !asks.admin) {
    return answer->fail(job_error(Code::Forbidden, "admin_key_needed",
                                  "`all=true` needs the key of an admin; leave it out for your "
                                  "own jobs"));
  }
  if (!all) filter.member = asks.share.id;
  if (const auto state = query_value(query, "state"); state && !state->empty()) {
    for (std::size_t i = 0; i < store::kJobStates.size(); ++i) {
      if (*state == store::kJobStates.at(i)) filter.state = static_cast<store::JobState>(i);
    }
    if (!filter.state) {
      ApiError error = job_error(Code::Invalid, "",
                                 fmt::format("`state` must be queued, running, done, failed or "
                                             "cancelled, not `{}`",
                                             *state));
      error.param = "state";
      return answer->fail(error);
    }
  }
  filter.cls = query_value(query, "class").value_or("");
  std::uint32_t limit = kPage;
  if (const auto text = query_value(query, "limit")) {
    const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), limit);
    if (failed != std::errc{} || end != text->data() + text->size() || limit == 0 ||
        limit > kPageMax) {
      ApiError error =
          job_error(Code::Invalid, "", fmt::format("`limit` must be 1 .. {}", kPageMax));
      error.param = "limit";
      return answer->fail(error);
    }
  }
  filter.limit = limit + 1;  // One more tells whether there are more.
  struct Read {
    std::vector<store::JobRecord> jobs;
    std::optional<ApiError> wrong;
  };
  const auto read = std::make_shared<Read>();
  JournalOp op;
  op.work = [read, answer, filter, after = query_value(query, "after").value_or("")](
                store::Journal& journal) mutable -> Result<> {
    *read = {};
    if (!after.empty()) {
      const auto any = filter.member ? std::nullopt : TRY(journal.find(after));
      const auto last = any ? OwnJob(*any) : TRY(find_own(journal, *answer, after));
      if (!last) read->wrong = last.error();
      if (!last) return {};
      filter.before = last->seq;
    }
    read->jobs = TRY(journal.list(filter));
    return {};
  };
  op.done = [read, answer, limit](const Result<>& done) {
    if (!done) return answer->fail(storage_error(done.error()));
    if (read->wrong) return answer->fail(*read->wrong);
    const bool more = read->jobs.size() > limit;
    if (more) read->jobs.pop_back();
    respond_json(*answer, 200, job_list_json(read->jobs, more));
  };
  jobs_.journal().post(std::move(op));
}

void JobRoutes::get(const std::shared_ptr<Answer>& answer, std::string_view rest) const {
  const auto [id, what] = split_rest(rest);
  if (what.empty()) return show(answer, id);
  if (what == "result") return result(answer, id, std::nullopt);
  if (what.starts_with(kFile)) {
    std::uint32_t index = 0;
    const char* const last = what.data() + what.size();
    const auto [end, failed] = std::from_chars(what.data() + kFile.size(), last, index);
    if (failed == std::errc{} && end == last) return result(answer, id, index);
  }
  if (what == "events") return events(answer, id);
  answer->fail(job_error(Code::NotFound, "route_not_found",
                         fmt::format("a job has `result`, `result/0` and further files, and "
                                     "`events`, and no `{}`",
                                     what)));
}

void JobRoutes::post(const std::shared_ptr<Answer>& answer, std::string_view rest) const {
  const auto [id, what] = split_rest(rest);
  if (what == "retry") return retry(answer, id);
  if (what == "cancel") return cancel(answer, id);
  answer->fail(job_error(Code::NotFound, "route_not_found",
                         fmt::format("a job can be sent `retry` and `cancel`, and no `{}`", what)));
}

}  // namespace lares::server
