// The loop's series among the metrics.
#pragma once

#include "server/metrics.h"

namespace lares::server {

struct LoopMetrics {
  explicit LoopMetrics(Metrics& metrics);

  Counter& device_restarts;
  Counter& text_restarts;
  Counter& prompt_tokens;
  Counter& cached_tokens;
  Counter& output_tokens;
  Counter& states_saved;
  Counter& states_restored;
  Gauge& memory_weights;
  Gauge& memory_kv;
  Gauge& memory_cache;
  Gauge& memory_compute;
  Gauge& memory_free;
  Gauge& memory_host;
  Gauge& waiting;
  Gauge& running;
  Histogram& step_seconds;
  Histogram& sampling_seconds;
  Histogram& idle_seconds;
  Histogram& queue_seconds;
  Histogram& estimate_error_seconds;
  Histogram& first_token_seconds;
  Histogram& token_seconds;
  Histogram& request_seconds;
};

}  // namespace lares::server
