#include "server/job_json.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

void append_time(std::string& out, std::string_view name, std::int64_t unix_ms) {
  if (unix_ms == 0) return;
  fmt::format_to(std::back_inserter(out), ",\"{}\":{:.3f}", name,
                 static_cast<double>(unix_ms) / 1000);
}

// ,"outputs":[{"index":0,"media_type":"image/png","bytes":1234,"url":"..."}]
void append_files(std::string& out, const store::JobRecord& job,
                  const std::vector<store::ArtefactHead>& artefacts) {
  std::string files;
  for (std::uint32_t i = 0;; ++i) {
    const auto file =
        std::ranges::find(artefacts, store::result_file_name(i), &store::ArtefactHead::name);
    if (file == artefacts.end()) break;
    files += fmt::format(
        R"({}{{"index":{},"media_type":{},"bytes":{},"url":"/v1/jobs/{}/result/{}"}})",
        files.empty() ? "" : ",", i, json_quoted(file->media_type), file->size, job.id, i);
  }
  if (!files.empty()) out += ",\"outputs\":[" + files + ']';
}

}  // namespace

std::string job_json(const store::JobRecord& job, const JobPlace& place, const JobParts& parts) {
  const std::vector<store::Attempt>& attempts = parts.attempts;
  std::string out = fmt::format(
      R"({{"id":{},"object":"job","state":"{}","path":{},"class":{},"member":{},"attempts":{})",
      json_quoted(job.id), store::job_state_name(job.state), json_quoted(job.kind),
      json_quoted(job.cls), json_quoted(job.member), job.attempts);
  append_time(out, "created", job.created_unix_ms);
  append_time(out, "started", job.started_unix_ms);
  append_time(out, "ended", job.ended_unix_ms);
  if (!store::is_over(job.state)) {
    if (place.position) out += fmt::format(",\"position\":{}", *place.position);
    if (!place.reason.empty()) out += ",\"reason\":" + json_quoted(place.reason);
    if (place.estimate) out += fmt::format(",\"estimate_s\":{:.3f}", in_seconds(*place.estimate));
  }
  if (!job.error_code.empty()) {
    out += fmt::format(R"(,"error":{{"code":{},"message":{}}})", json_quoted(job.error_code),
                       json_quoted(job.error_message));
  }
  append_files(out, job, parts.artefacts);
  if (parts.webhook) {
    out += fmt::format(R"(,"webhook":{{"url":{},"state":"{}","tries":{},"reason":{}}})",
                       json_quoted(parts.webhook->url), parts.webhook->state, parts.webhook->tries,
                       json_quoted(parts.webhook->reason));
  }
  if (!attempts.empty()) {
    out += ",\"attempt_log\":[";
    for (const store::Attempt& attempt : attempts) {
      if (attempt.number > 1) out += ',';
      out += fmt::format(R"({{"attempt":{},"device_s":{:.6f})", attempt.number,
                         in_seconds(attempt.device));
      append_time(out, "started", attempt.started_unix_ms);
      append_time(out, "ended", attempt.ended_unix_ms);
      if (!attempt.reason.empty()) out += ",\"reason\":" + json_quoted(attempt.reason);
      out += '}';
    }
    out += ']';
  }
  return out + '}';
}

std::string job_list_json(const std::vector<store::JobRecord>& jobs, bool more) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const store::JobRecord& job : jobs) {
    if (&job != &jobs.front()) out += ',';
    out += job_json(job);
  }
  out += fmt::format("],\"has_more\":{}", more);
  if (more) out += ",\"next\":" + json_quoted(jobs.back().id);
  return out + '}';
}

}  // namespace lares::server
