// One request on its way through the routes: its id, its place in the metrics, its one answer.
//
// Shared; any thread. What reaches the exchange is what its own contract says (server/http.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/types.h"
#include "server/access.h"
#include "server/errors.h"
#include "server/http.h"
#include "server/metrics.h"

namespace lares::server {

// Counts answers by route, method and status, and their times by route.
class HttpMetrics {
 public:
  explicit HttpMetrics(Metrics& metrics) : metrics_(&metrics) {}
  // `route` is a template ("/v1/models/{id}"), so that the number of series has a bound.
  void record(std::string_view route, std::string_view method, int status, Duration took);

 private:
  Metrics* metrics_;
};

// Whose clients must understand a failure: {"error":{"message":...}} or {"error":"..."}.
enum class ErrorForm : std::uint8_t { OpenAi, Ollama };

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  Answer(std::shared_ptr<Exchange> exchange, std::shared_ptr<HttpMetrics> metrics,
         std::function<Instant()> now);

  [[nodiscard]] const HttpRequest& request() const { return exchange_->request(); }
  // Until called, "unknown"; a literal.
  void set_route(std::string_view route) { route_ = route; }
  // Who asked; before a route runs.
  void set_caller(CallerRef caller) { caller_ = std::move(caller); }
  [[nodiscard]] const CallerRef& caller() const { return caller_; }
  // Until called, the id the HTTP server gave.
  void set_id(std::string id) { id_ = std::move(id); }

  void respond(HttpResponse response);
  void fail(const ApiError& error);
  // Until called, OpenAI's.
  void set_error_form(ErrorForm form) { error_form_ = form; }
  void begin_stream(std::string content_type);
  void send(std::string data) { exchange_->send(std::move(data)); }
  void end_stream();
  // Recorded as status 499, nginx's number for it.
  void on_disconnect(std::function<void()> callback);

 private:
  void record(int status);

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<HttpMetrics> metrics_;
  std::function<Instant()> now_;
  Instant begun_;
  std::string_view route_ = "unknown";
  std::string id_;
  ErrorForm error_form_ = ErrorForm::OpenAi;
  CallerRef caller_;
  std::atomic<bool> recorded_{false};
};

}  // namespace lares::server
