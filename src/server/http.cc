#include "server/http.h"

#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/format.h>

namespace lares::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace

HttpResponse json_response(std::string body, int status) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

std::string_view HttpRequest::header(std::string_view lower_case_name) const {
  const auto it = std::find_if(headers.begin(), headers.end(), [lower_case_name](const auto& h) {
    return h.first == lower_case_name;
  });
  return it == headers.end() ? std::string_view() : std::string_view(it->second);
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (is_control(c)) return std::nullopt;
    out += c;
  }
  return out;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) != name) continue;
    std::string value(equals == pair.npos ? std::string_view() : pair.substr(equals + 1));
    std::replace(value.begin(), value.end(), '+', ' ');
    return percent_decoded(value);
  }
  return std::nullopt;
}

std::string_view status_reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Status";
  }
}

std::string response_head(int status, const Headers& headers) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, status_reason(status));
  for (const auto& [name, value] : headers) {
    out += name;
    out += ": ";
    std::copy_if(value.begin(), value.end(), std::back_inserter(out),
                 [](char c) { return c != '\r' && c != '\n'; });
    out += "\r\n";
  }
  out += "\r\n";
  return out;
}

std::string http_date(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 40> text{};
  const std::size_t size =
      std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return std::string(text.data(), size);
}

}  // namespace lares::server
