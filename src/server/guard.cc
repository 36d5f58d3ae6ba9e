#include "server/guard.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

namespace lares::server {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct Authority {
  std::string host;  // Lower case, brackets kept.
  std::string port;  // "" if none was given.
};

std::optional<Authority> split_authority(std::string_view text) {
  const std::size_t bracket = text.find(']');
  const std::size_t colon =
      text.find(':', text.starts_with('[') && bracket != text.npos ? bracket : 0);
  Authority out{lower(text.substr(0, colon)), ""};
  if (colon == text.npos) return out;
  out.port = text.substr(colon + 1);
  if (!is_digits(out.port) || out.port.size() > 5) return std::nullopt;
  return out;
}

// Four decimal numbers, the first of them 127, nothing shortened: browsers write addresses out.
bool is_loopback_v4(std::string_view host) {
  if (!host.starts_with("127.")) return false;
  int parts = 0;
  while (true) {
    const std::size_t dot = host.find('.');
    const std::string_view part = host.substr(0, dot);
    if (!is_digits(part) || part.size() > 3 || (part.size() == 3 && part > "255")) return false;
    ++parts;
    if (dot == host.npos) return parts == 4;
    host.remove_prefix(dot + 1);
  }
}

bool is_loopback_host(std::string_view host) {
  return host == "localhost" || host == "[::1]" || is_loopback_v4(host);
}

ApiError refuse(std::string message, std::string error_code, int status = 403) {
  ApiError error;
  error.code = Code::Forbidden;
  error.message = std::move(message);
  error.error_code = std::move(error_code);
  error.status = status;
  return error;
}

bool is_forwarding_header(std::string_view name) {
  return name == "forwarded" || name == "via" || name == "x-real-ip" ||
         name.starts_with("x-forwarded-");
}

// An Origin is scheme://host[:port]; "null" and anything else is another site.
bool origin_is_own(std::string_view origin, const Authority& host) {
  std::string_view default_port;
  std::string scheme = lower(origin.substr(0, origin.find("://")));
  if (scheme == "http") default_port = "80";
  if (scheme == "https") default_port = "443";
  if (default_port.empty() || scheme.size() == origin.size()) return false;
  const auto from = split_authority(origin.substr(scheme.size() + 3));
  if (!from || !is_loopback_host(from->host) || from->host != host.host) return false;
  const auto port = [default_port](const Authority& a) {
    return a.port.empty() ? default_port : std::string_view(a.port);
  };
  return port(*from) == port(host);
}

bool is_type(std::string_view content_type, std::string_view wanted) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return lower(type) == wanted;
}

bool is_json(std::string_view content_type) {
  return is_type(content_type, "application/json");
}

bool is_form(std::string_view content_type) {
  return is_type(content_type, "multipart/form-data");
}

}  // namespace

bool is_loopback_authority(std::string_view authority) {
  const auto parts = split_authority(authority);
  return parts && is_loopback_host(parts->host);
}

std::optional<ApiError> guard_keyless(const HttpRequest& request) {
  for (const auto& [name, value] : request.headers) {
    if (!is_forwarding_header(name)) continue;
    return refuse(fmt::format("a proxy forwarded this request ({}); forwarded requests need a key "
                              "(`lares member add NAME`), or call the server directly on this "
                              "machine",
                              name),
                  "forwarded_needs_key");
  }
  const auto host = split_authority(request.header("host"));
  if (!host || !is_loopback_host(host->host)) {
    return refuse(
        "the Host header must be localhost, 127.x.x.x or [::1]: without a key this server "
        "answers only programs on this machine that call it by such a name",
        "host_not_allowed");
  }
  const std::string_view origin = request.header("origin");
  if (request.method == "OPTIONS" &&
      (!origin.empty() || !request.header("access-control-request-method").empty())) {
    return refuse("requests from web pages are not allowed without a key", "preflight_refused");
  }
  if (!origin.empty() && !origin_is_own(origin, *host)) {
    return refuse("requests from web pages of another origin are not allowed without a key",
                  "origin_not_allowed");
  }
  return guard_body(request);
}

std::optional<ApiError> guard_body(const HttpRequest& request) {
  const bool has_body =
      request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  // Where files come, as forms bring them. Pages of other origins have been refused before.
  const bool form = request.path == "/v1/images/edits" && is_form(request.header("content-type"));
  if (has_body && !form && !is_json(request.header("content-type"))) {
    ApiError error =
        refuse("the body must be sent with `Content-Type: application/json`", "content_type", 415);
    error.code = Code::Invalid;
    return error;
  }
  return std::nullopt;
}

}  // namespace lares::server
