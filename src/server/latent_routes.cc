#include "server/latent_routes.h"

#include <utility>

#include <fmt/format.h>

#include "core/json.h"
#include "core/text.h"
#include "server/openai_request.h"

namespace lares::server {
namespace {

ApiError latent_error(Code code, std::string error_code, std::string message, int status = 0) {
  ApiError error;
  error.code = code;
  error.error_code = std::move(error_code);
  error.message = std::move(message);
  error.status = status;
  return error;
}

// {"id":"3f9c","object":"latent","handle":"lat:3f9c","space":"sd","cells":"64x64",...}
std::string latent_json(const store::LatentRecord& latent, MemberId caller) {
  std::string noise = "null";
  if (latent.noise) {
    noise = fmt::format("{{\"done\":{},\"steps\":{},\"sampler\":{}}}", latent.noise->done,
                        latent.noise->steps, json_quoted(latent.noise->sampler));
  }
  return fmt::format(
      R"({{"id":"{}","object":"latent","handle":"lat:{}","name":{},"space":{},"family":{},)"
      R"("width":{},"height":{},"cells":"{}x{}","dtype":"{}","noise":{},"bytes":{},"own":{},)"
      R"("shared":{},"created":{},"expires":{}}})",
      latent.id, latent.id, json_quoted(latent.name), json_quoted(latent.space),
      json_quoted(latent.family), latent.width * latent.factor, latent.height * latent.factor,
      latent.width, latent.height, latent.dtype, noise, latent.size, latent.member_id == caller,
      !latent.shared.empty(), latent.created_unix_ms / 1000, latent.expires_unix_ms / 1000);
}

// "lat:3f9c" and "3f9c" are the same.
std::string_view bare(std::string_view id) {
  if (id.starts_with("lat:")) id.remove_prefix(4);
  return id;
}

void respond_written(const std::shared_ptr<Answer>& answer, const Result<>& written,
                     std::string body) {
  if (written) return answer->respond(json_response(std::move(body)));
  answer->fail(latent_error(Code::Io, "storage_failed", written.error().message, 507));
}

}  // namespace

std::optional<store::LatentRecord> LatentRoutes::own(const std::shared_ptr<Answer>& answer,
                                                     std::string_view id, bool alone) const {
  const MemberId caller = answer->caller()->member.share.id;
  Latents::Found found = latents_.find(bare(id), caller);
  const bool theirs =
      found.standing != Latents::Standing::Unknown && (!alone || found.latent.member_id == caller);
  if (!theirs) {
    answer->fail(latent_error(Code::NotFound, "latent_not_found",
                              fmt::format("you have no latent `lat:{}`", bare(id))));
    return std::nullopt;
  }
  if (found.standing == Latents::Standing::There) return std::move(found.latent);
  answer->fail(latent_error(
      Code::NotFound, "latent_expired",
      fmt::format("`lat:{}` was kept and has expired; run the sketch that made it again", bare(id)),
      410));
  return std::nullopt;
}

void LatentRoutes::handle(const std::shared_ptr<Answer>& answer, std::string_view rest) const {
  const std::string& method = answer->request().method;
  if (method == "DELETE") return remove(answer, rest);
  method == "POST" ? post(answer, rest) : get(answer, rest);
}

void LatentRoutes::get(const std::shared_ptr<Answer>& answer, std::string_view rest) const {
  const MemberId caller = answer->caller()->member.share.id;
  if (!rest.empty()) {
    const auto latent = own(answer, rest, false);
    if (latent) answer->respond(json_response(latent_json(*latent, caller)));
    return;
  }
  std::string all;
  for (const store::LatentRecord& latent : latents_.list(caller))
    all += (all.empty() ? "" : ",") + latent_json(latent, caller);
  answer->respond(json_response("{\"object\":\"list\",\"data\":[" + all + "]}"));
}

void LatentRoutes::remove(const std::shared_ptr<Answer>& answer, std::string_view rest) const {
  const auto latent = own(answer, rest, true);
  if (!latent) return;
  latents_.remove(latent->id, [answer, id = latent->id](const Result<>& written) {
    respond_written(answer, written,
                    fmt::format(R"({{"id":"{}","object":"latent.deleted","deleted":true}})", id));
  });
}

void LatentRoutes::post(const std::shared_ptr<Answer>& answer, std::string_view rest) const {
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  if (rest.substr(slash) != "/share") {
    return answer->fail(latent_error(Code::NotFound, "route_not_found",
                                     "a latent can be sent `share`, and nothing else"));
  }
  const auto latent = own(answer, rest.substr(0, slash), true);
  if (!latent) return;
  const auto parsed = json::parse(answer->request().body);
  if (!parsed) return answer->fail(unreadable_body(parsed.error()));
  json::Problem problem;
  const json::Fields body(*parsed, "", problem);
  const std::string* name = body.string("member");
  if (!problem && name == nullptr) body.note("member", "is required: who may use it");
  const auto member = problem ? std::nullopt : members_(*name);
  if (!problem && !member) body.note("member", fmt::format("`{}` is not known here", *name));
  if (problem) {
    ApiError error = latent_error(Code::Invalid, "", problem.message);
    error.param = problem.param;
    return answer->fail(error);
  }
  latents_.share(latent->id, *member, [answer, id = latent->id](const Result<>& written) {
    respond_written(answer, written,
                    fmt::format(R"({{"id":"{}","object":"latent","shared":true}})", id));
  });
}

}  // namespace lares::server
