#include "server/route_parts.h"

#include "server/job_routes.h"
#include "server/multipart.h"
#include "server/work.h"

namespace lares::server {
namespace {

constexpr std::string_view kId = "{id}";

}  // namespace

std::optional<std::string_view> match(std::string_view path_template, std::string_view path) {
  if (!path_template.ends_with(kId)) {
    if (path == path_template) return "";
    return std::nullopt;
  }
  const std::string_view fixed = path_template.substr(0, path_template.size() - kId.size());
  if (!path.starts_with(fixed) || path.size() == fixed.size()) return std::nullopt;
  return path.substr(fixed.size());
}

bool waits_for_answer(const HttpRequest& request, std::string_view route) {
  if (request.method != "POST" || !makes_work(route) || JobRoutes::wants_job(request)) return false;
  return !is_multipart(request.header("content-type"));
}

std::optional<store::UsageBy> usage_by(std::string_view name) {
  if (name == "member") return store::UsageBy::Member;
  if (name == "class") return store::UsageBy::Class;
  if (name == "model") return store::UsageBy::Model;
  if (name == "day") return store::UsageBy::Day;
  return std::nullopt;
}

ApiError not_found(std::string message, std::string error_code) {
  ApiError error;
  error.code = Code::NotFound;
  error.message = std::move(message);
  error.error_code = std::move(error_code);
  return error;
}

ApiError server_stopping() {
  ApiError error;
  error.code = Code::Unavailable;
  error.error_code = "server_stopping";
  error.message = "the server is stopping";
  return error;
}

}  // namespace lares::server
