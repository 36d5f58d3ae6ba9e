#include "server/status_text.h"

#include <iterator>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {

void append_model(std::string& out, const ModelStatus& model) {
  const auto quoted = [&out](std::string_view key, std::string_view value) {
    fmt::format_to(std::back_inserter(out), "\"{}\":\"", key);
    append_json_escaped(out, is_utf8(value) ? value : utf8_sanitised(value));
    out += '"';
  };
  out += '{';
  quoted("id", model.name);
  fmt::format_to(std::back_inserter(out),
                 ",\"object\":\"model\",\"created\":{},\"owned_by\":\"lares\",", model.created);
  quoted("state", model.state);
  out += ',';
  if (!model.error.empty()) {
    quoted("error", model.error);
    out += ',';
  }
  quoted("why", model.why);
  fmt::format_to(std::back_inserter(out),
                 ",\"load_s\":{},\"loads\":{},\"unloads\":{},\"memory_bytes\":{},",
                 model.load ? fmt::format("{:.3f}", in_seconds(*model.load)) : "null", model.loads,
                 model.unloads, model.memory.count);
  quoted("architecture", model.info.architecture);
  fmt::format_to(std::back_inserter(out),
                 ",\"context_length\":{},\"parameters\":{},\"size_bytes\":{},\"generates\":{},"
                 "\"embeds\":{},\"cut_anywhere\":{}}}",
                 model.context, model.info.parameters, model.info.weights.count,
                 model.info.can.generates, model.info.can.embeds, model.info.can.cut_anywhere);
}

void set_status_gauges(Metrics& metrics, const ServiceStatus& status) {
  const auto set = [&metrics](std::string_view name, std::string_view help, double value,
                              std::string_view labels = "") {
    metrics.gauge(name, help, labels).set(value);
  };
  set("lares_ready", "1 while the default model can be used.", status.ready ? 1 : 0);
  set("lares_jobs_waiting", "Jobs accepted and not yet running.", status.waiting);
  set("lares_jobs_running", "Jobs that take part in steps.", status.running);
  const std::string_view restarts = "Times a worker process was started anew.";
  set("lares_worker_restarts", restarts, static_cast<double>(status.device_restarts),
      label("worker", "device"));
  set("lares_worker_restarts", restarts, static_cast<double>(status.text_restarts),
      label("worker", "text"));
}

}  // namespace lares::server
