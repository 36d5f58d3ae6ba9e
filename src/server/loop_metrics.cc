#include "server/loop_metrics.h"

#include <array>

namespace lares::server {
namespace {

constexpr std::array<double, 14> kStepBuckets{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                              0.2,   0.5,   1,     2,    5,    10,   30};
constexpr std::array<double, 9> kSamplingBuckets{0.00002, 0.00005, 0.0001, 0.0005, 0.001,
                                                 0.002,   0.005,   0.01,   0.05};

Counter& restarts(Metrics& metrics, std::string_view kind) {
  return metrics.counter("lares_worker_restarts_total", "Workers started anew after they ended.",
                         label("kind", kind));
}

Gauge& memory(Metrics& metrics, std::string_view part) {
  return metrics.gauge("lares_memory_bytes",
                       "Memory by what it holds, when a model last came or went or somebody asked.",
                       label("part", part));
}

}  // namespace

LoopMetrics::LoopMetrics(Metrics& metrics)
    : device_restarts(restarts(metrics, "device")),
      text_restarts(restarts(metrics, "text")),
      prompt_tokens(
          metrics.counter("lares_prompt_tokens_total", "Prompt tokens of accepted requests.")),
      cached_tokens(metrics.counter("lares_prompt_tokens_cached_total",
                                    "Prompt tokens found in the KV cache.")),
      output_tokens(metrics.counter("lares_output_tokens_total", "Tokens generated.")),
      states_saved(metrics.counter("lares_states_saved_total",
                                   "Sequences copied from a KV pool to the host's memory.")),
      states_restored(
          metrics.counter("lares_states_restored_total", "Sequences copied back into a KV pool.")),
      memory_weights(memory(metrics, "weights")),
      memory_kv(memory(metrics, "kv")),
      memory_cache(memory(metrics, "cache")),
      memory_compute(memory(metrics, "compute")),
      memory_free(memory(metrics, "free")),
      memory_host(memory(metrics, "host")),
      waiting(metrics.gauge("lares_jobs_waiting", "Jobs that wait in the scheduler.")),
      running(metrics.gauge("lares_jobs_running", "Jobs that have a sequence.")),
      step_seconds(
          metrics.histogram("lares_step_seconds", "Device time of one step.", kStepBuckets)),
      sampling_seconds(metrics.histogram("lares_step_sampling_seconds",
                                         "Part of a step spent on sampling.", kSamplingBuckets)),
      idle_seconds(metrics.histogram(
          "lares_step_idle_seconds",
          "Time the device stood still between two steps although the next one was waiting.",
          kSamplingBuckets)),
      queue_seconds(metrics.histogram("lares_queue_time_seconds",
                                      "From the scheduler's queue to the first step.",
                                      kTimeToFirstTokenBuckets)),
      estimate_error_seconds(metrics.histogram(
          "lares_queue_estimate_error_seconds",
          "How far the wait that a stream was told at first was from the one it had.",
          kTimeToFirstTokenBuckets)),
      first_token_seconds(metrics.histogram("gen_ai_server_time_to_first_token_seconds",
                                            "From acceptance to the first token.",
                                            kTimeToFirstTokenBuckets)),
      token_seconds(metrics.histogram("gen_ai_server_time_per_output_token_seconds",
                                      "Mean time between a request's tokens after the first.",
                                      kTimePerTokenBuckets)),
      request_seconds(metrics.histogram("gen_ai_server_request_duration_seconds",
                                        "From acceptance to the end.", kRequestDurationBuckets)) {}

}  // namespace lares::server
