#include "server/request.h"

#include "server/job_link.h"

namespace lares::server {
namespace {

Duration between(const std::optional<Instant>& from, const std::optional<Instant>& to) {
  return from && to ? *to - *from : Duration(-1);
}

// As OpenTelemetry calls it.
std::string_view operation_of(const Generation& generation) {
  if (std::holds_alternative<ChatPrompt>(generation.prompt)) return "chat";
  if (std::holds_alternative<EmbedPrompt>(generation.prompt)) return "embeddings";
  if (std::holds_alternative<SketchPrompt>(generation.prompt)) return "generate_content";
  return "text_completion";
}

}  // namespace

store::UsageRow Request::usage_row(Instant now, const std::string& model_name) const {
  store::UsageRow row;
  row.job = id.value;
  if (generation.job) row.job_id = generation.job->id();
  row.accepted_unix_ms = accepted_unix_ms;
  row.member_id = generation.member.id;
  row.member = generation.member.name;
  row.cls = generation.cls;
  row.model = model_name;
  row.operation = operation_of(generation);
  row.prompt_tokens = prompt_tokens;
  row.cached_tokens = usage.cached_tokens;
  row.output_tokens = usage.output_tokens;
  row.device = device;
  row.clocks.text_work = between(text_from, scheduled_at);
  row.clocks.model_load = between(scheduled_at, model_ready_at);
  row.clocks.queue_wait = between(model_ready_at ? model_ready_at : scheduled_at, first_run_at);
  row.clocks.prefill = between(first_run_at, first_token_at);
  row.clocks.inference = between(first_token_at, last_token_at);
  row.clocks.first_token = between(accepted_at, first_token_at);
  row.clocks.total = now - accepted_at;
  return row;
}

}  // namespace lares::server
