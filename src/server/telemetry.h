// Traces for an OpenTelemetry collector: one a request, a span for each of its clocks, as
// OTLP/HTTP JSON. No words and no names: times, counts, models, classes and numbers of members.
//
// ended() is called on the loop's thread: it puts a row into a queue and returns. A thread of this
// class sends them in batches. A collector that is away costs memory up to a bound, then traces.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "core/types.h"
#include "server/metrics.h"
#include "server/webhook_transport.h"
#include "store/usage.h"

namespace lares::server {

struct TracesOptions {
  std::string endpoint;          // "" = no traces at all. Else good for parse_webhook_url.
  std::string version;           // Of this server.
  std::size_t queue_max = 4096;  // Rows that wait, about 2 MB; later ones are dropped.
  std::size_t batch_max = 256;   // Of one POST.
  std::uint32_t tries_max = 5;   // Of a batch; then it is dropped.
  Duration every = std::chrono::seconds(2);
  Duration deadline = std::chrono::seconds(5);  // Of one POST.
  bool own_thread = true;                       // Else send_next() is called by somebody.
};

class Traces {
 public:
  Traces(std::unique_ptr<Resolver> resolver, std::unique_ptr<Transport> transport,
         TracesOptions options, Metrics& metrics);
  Traces(const Traces&) = delete;
  Traces& operator=(const Traces&) = delete;
  ~Traces();  // Sends what is left, once.

  // Any thread.
  void ended(const store::UsageRow& row);
  // One batch, or what is left of one; false if nothing waits, or the collector did not take it.
  bool send_next();

 private:
  void run();
  Result<> post(const std::string& body);

  const std::unique_ptr<Resolver> resolver_;
  const std::unique_ptr<Transport> transport_;
  const TracesOptions options_;
  std::optional<WebhookUrl> url_;
  Counter& sent_;
  Counter& dropped_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<store::UsageRow> waiting_;
  bool stop_ = false;
  // The sender's alone.
  std::uint32_t tries_ = 0;
  bool failing_ = false;
  std::thread thread_;
};

// The body of a POST to /v1/traces.
std::string traces_json(std::span<const store::UsageRow> rows, std::string_view version);

}  // namespace lares::server
