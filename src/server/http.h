// HTTP/1.1 as the routes see it. The library behind it is confined to http_beast*.cc.
//
// Threads: the server owns one I/O thread, which reads, writes and calls the handler; an Exchange
// may be answered from any thread. Many `send`s from another thread in one moment cost one wake-up
// of the I/O thread together, and each connection one write.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/types.h"

namespace lares::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

class JobLink;  // server/job_link.h

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // Decoded, without the query: "/v1/models"
  std::string query;   // After '?', undecoded.
  Headers headers;     // Names in lower case.
  std::string body;
  std::string peer;              // The other end's address: "127.0.0.1".
  std::string id;                // Unique among the requests of this server: for X-Request-Id.
  std::weak_ptr<JobLink> job{};  // Of a request that the journal makes (server/job_run.h).
  // The first header of that name, or "".
  [[nodiscard]] std::string_view header(std::string_view lower_case_name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers;
};
HttpResponse json_response(std::string body, int status = 200);

// One request being answered. Shared: it may be answered later, from any thread. Exactly one of
// `respond` or `begin_stream`...`end_stream`; a call after the client has gone is ignored. The
// server keeps it until it is answered or the client has gone; it may outlive the server.
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual const HttpRequest& request() const = 0;
  virtual void respond(HttpResponse response) = 0;
  // Chunked. What is sent waits in a bounded buffer; a client that stops reading for the write
  // limit, or falls behind by more than the buffer, is disconnected.
  virtual void begin_stream(int status, std::string content_type, Headers headers) = 0;
  virtual void send(std::string data) = 0;
  virtual void end_stream() = 0;
  // Called at most once, on the I/O thread, if the client goes away (or the server stops) before
  // the whole answer was handed to the socket; also if that happened before this call. A client
  // that ends its side of the connection while it waits counts as gone.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};

using HttpHandler = std::function<void(const std::shared_ptr<Exchange>&)>;

// Limits. The defaults, and what each is for, are in app/settings.cc.
struct HttpOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 8080;                         // 0 picks one.
  std::uint32_t header_bytes_max = 64U << 10U;       // 431 beyond.
  std::uint64_t body_bytes_max = 16U << 20U;         // 413 beyond.
  std::uint64_t bodies_bytes_max = 512U << 20U;      // All bodies held together; 503 beyond.
  Duration header_limit = std::chrono::seconds(10);  // From first byte to last of the head; 408.
  Duration body_limit = std::chrono::seconds(60);    // For the body; 408.
  Duration idle_limit = std::chrono::seconds(75);    // A connection without a request.
  Duration write_limit = std::chrono::seconds(30);   // Without progress.
  std::uint64_t stream_buffer_max = 4U << 20U;       // Bytes waiting for one client.
  std::uint32_t connections_max = 10000;             // Beyond: accepted, answered 503, closed.
};

// Pieces of the protocol that need no library (http.cc).
// "%41b" -> "Ab"; nothing if an escape is malformed or the result holds a control character.
std::optional<std::string> percent_decoded(std::string_view text);
// Value of `name` in "a=1&b=2", decoded ('+' is a blank); nothing if absent or malformed.
std::optional<std::string> query_value(std::string_view query, std::string_view name);
std::string_view status_reason(int status);
// Status line and headers, with the blank line. Line ends inside a value are dropped.
std::string response_head(int status, const Headers& headers);
// "Tue, 15 Nov 1994 08:12:31 GMT"
std::string http_date(std::int64_t unix_seconds);

// Runs one I/O thread of its own. `handler` is called there and must not block.
class HttpServer {
 public:
  // Binds and listens. Errors: Conflict (port in use, says by what to change it), Invalid
  // (address), Io.
  static Result<std::unique_ptr<HttpServer>> create(HttpOptions options, HttpHandler handler);
  virtual ~HttpServer() = default;  // Stops: closes every connection and joins the thread.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::uint64_t connections() const = 0;
};

}  // namespace lares::server
