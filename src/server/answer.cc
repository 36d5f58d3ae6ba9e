#include "server/answer.h"

#include <array>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

// OpenTelemetry's advice for http.server.request.duration, and more at the long end: an answer of a
// language model may take minutes.
constexpr std::array<double, 17> kSeconds = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75,
                                             1,     2.5,  5,     7.5,  10,    30,  60,   300};
constexpr int kClientGone = 499;

// Methods come from the client; the label must not.
std::string_view known_method(std::string_view method) {
  for (const std::string_view known :
       {"GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"}) {
    if (method == known) return known;
  }
  return "other";
}

}  // namespace

void HttpMetrics::record(std::string_view route, std::string_view method, int status,
                         Duration took) {
  metrics_
      ->counter(
          "lares_http_requests_total", "HTTP requests answered.",
          fmt::format("{},{},{}", label("route", route), label("method", known_method(method)),
                      label("status", std::to_string(status))))
      .add();
  metrics_
      ->histogram("lares_http_request_seconds", "From a request's last byte to its answer's end.",
                  kSeconds, label("route", route))
      .observe(in_seconds(took));
}

Answer::Answer(std::shared_ptr<Exchange> exchange, std::shared_ptr<HttpMetrics> metrics,
               std::function<Instant()> now)
    : exchange_(std::move(exchange)),
      metrics_(std::move(metrics)),
      now_(std::move(now)),
      begun_(now_()),
      id_(exchange_->request().id) {}

void Answer::record(int status) {
  if (recorded_.exchange(true)) return;
  metrics_->record(route_, request().method, status, now_() - begun_);
}

void Answer::respond(HttpResponse response) {
  record(response.status);
  response.headers.emplace_back("X-Request-Id", id_);
  exchange_->respond(std::move(response));
}

void Answer::fail(const ApiError& error) {
  respond(error_form_ == ErrorForm::Ollama ? ollama_error_response(error) : error_response(error));
}

void Answer::begin_stream(std::string content_type) {
  exchange_->begin_stream(200, std::move(content_type), Headers{{"X-Request-Id", id_}});
}

void Answer::end_stream() {
  record(200);
  exchange_->end_stream();
}

void Answer::on_disconnect(std::function<void()> callback) {
  // The circle (exchange, callback, answer) is broken by the exchange: it drops the callback once
  // it is complete.
  exchange_->on_disconnect([self = shared_from_this(), callback = std::move(callback)] {
    self->record(kClientGone);
    callback();
  });
}

}  // namespace lares::server
