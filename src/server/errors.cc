#include "server/errors.h"

#include <array>
#include <utility>

#include "core/text.h"
#include "server/generation.h"

namespace lares::server {
namespace {

constexpr std::string_view kInvalidRequest = "invalid_request_error";
constexpr std::string_view kServerError = "server_error";

// TooLarge and Unsupported are 400: OpenAI's clients know 400 for a prompt beyond the context, and
// they repeat every 5xx, which would not help. The limit on a body is HTTP's own 413.
constexpr std::array kRows = {
    ErrorRow{400, kInvalidRequest, "invalid_request", 0},  // Invalid
    ErrorRow{404, kInvalidRequest, "not_found", 0},        // NotFound
    ErrorRow{400, kInvalidRequest, "too_large", 0},        // TooLarge
    ErrorRow{429, "rate_limit_error", "busy", 1},          // Busy
    ErrorRow{503, kServerError, "unavailable", 2},         // Unavailable
    ErrorRow{400, kInvalidRequest, "unsupported", 0},      // Unsupported
    ErrorRow{500, kServerError, "corrupt", 0},             // Corrupt
    ErrorRow{500, kServerError, "io_error", 0},            // Io
    ErrorRow{403, "permission_error", "forbidden", 0},     // Forbidden
    ErrorRow{409, kInvalidRequest, "conflict", 0},         // Conflict
};
static_assert(kRows.size() == static_cast<std::size_t>(Code::Conflict) + 1);

void append_member(std::string& out, std::string_view name, std::string_view value) {
  out += '"';
  out += name;
  out += "\":";
  if (value.empty()) {
    out += "null";
    return;
  }
  out += '"';
  append_json_escaped(out, is_utf8(value) ? value : utf8_sanitised(value));
  out += '"';
}

}  // namespace

const ErrorRow& error_row(Code code) {
  return kRows.at(static_cast<std::size_t>(code));
}

ApiError api_error(const Ended& ended) {
  ApiError error;
  error.code = ended.error->code;
  error.message = ended.error->message;
  error.error_code = ended.error_code;
  error.retry_after =
      static_cast<int>(std::chrono::ceil<std::chrono::seconds>(ended.retry_after).count());
  return error;
}

int error_status(const ApiError& error) {
  return error.status != 0 ? error.status : error_row(error.code).status;
}

std::string error_body(const ApiError& error) {
  const ErrorRow& row = error_row(error.code);
  std::string out = "{\"error\":{";
  append_member(out, "message", error.message);
  out += ',';
  append_member(out, "type", row.type);
  out += ',';
  append_member(out, "param", error.param);
  out += ',';
  append_member(out, "code", error.error_code.empty() ? row.error_code : error.error_code);
  out += "}}";
  return out;
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response;
  response.status = error_status(error);
  response.body = error_body(error);
  const int retry_after =
      error.retry_after > 0 ? error.retry_after : error_row(error.code).retry_after;
  if (retry_after > 0) response.headers.emplace_back("Retry-After", std::to_string(retry_after));
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse ollama_error_response(const ApiError& error) {
  std::string body = "{";
  append_member(body, "error", error.message);
  body += ',';
  append_member(body, "code",
                error.error_code.empty() ? error_row(error.code).error_code : error.error_code);
  body += '}';
  HttpResponse response = error_response(error);
  response.body = std::move(body);
  return response;
}

}  // namespace lares::server
