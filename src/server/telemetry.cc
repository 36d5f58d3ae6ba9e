#include "server/telemetry.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "core/hash.h"
#include "core/log.h"
#include "core/text.h"

namespace lares::server {
namespace {

// Of OTLP's enumerations, which its JSON writes as numbers.
constexpr int kInternal = 1, kServer = 2;  // SpanKind
constexpr int kStatusError = 2;            // StatusCode
constexpr std::string_view kPath = "/v1/traces";

// One attempt at a job, or one request, is one root span; a job's attempts share its trace.
struct Ids {
  std::string trace, root;
  std::uint64_t seed = 0;
};

Ids ids_of(const store::UsageRow& row) {
  const auto accepted = static_cast<std::uint64_t>(row.accepted_unix_ms);
  Ids ids;
  ids.seed = hash_combine(hash_combine(row.job, accepted), row.member_id.value);
  const std::uint64_t trace = row.job_id.empty() ? ids.seed : hash_text(row.job_id);
  // Nothing may be all zeros, and no two alike.
  ids.trace = fmt::format("{:016x}{:016x}", hash_combine(trace, 1), hash_combine(trace, 2) | 1U);
  ids.root = fmt::format("{:016x}", mix64(ids.seed) | 1U);
  return ids;
}

std::string text(std::string_view key, std::string_view value) {
  return fmt::format(R"({{"key":"{}","value":{{"stringValue":{}}}}})", key, json_quoted(value));
}

// 64-bit numbers are strings in protobuf's JSON.
std::string number(std::string_view key, std::uint64_t value) {
  return fmt::format(R"({{"key":"{}","value":{{"intValue":"{}"}}}})", key, value);
}

std::string real(std::string_view key, double value) {
  return fmt::format(R"({{"key":"{}","value":{{"doubleValue":{:.9g}}}}})", key, value);
}

std::string attributes_of(const store::UsageRow& row) {
  std::vector<std::string> all;
  if (!row.operation.empty()) all.push_back(text("gen_ai.operation.name", row.operation));
  all.push_back(text("gen_ai.provider.name", "lares"));
  all.push_back(text("gen_ai.request.model", row.model));
  all.push_back(number("gen_ai.usage.input_tokens", row.prompt_tokens));
  all.push_back(number("gen_ai.usage.output_tokens", row.output_tokens));
  all.push_back(number("lares.cached_tokens", row.cached_tokens));
  all.push_back(text("lares.class", row.cls));
  all.push_back(number("lares.member_id", row.member_id.value));
  all.push_back(text("lares.outcome", store::outcome_name(row.outcome)));
  all.push_back(real("lares.device_s", in_seconds(row.device)));
  if (row.clocks.first_token >= Duration{})
    all.push_back(real("lares.first_token_s", in_seconds(row.clocks.first_token)));
  if (!row.job_id.empty()) all.push_back(text("lares.job_id", row.job_id));
  if (!row.reason.empty()) all.push_back(text("error.type", row.reason));
  return fmt::format("{}", fmt::join(all, ","));
}

// A clock as a stretch of the request's life; times since it was accepted.
struct Stretch {
  std::string_view name;
  Duration begin{}, length{-1};  // -1: never reached.
};

// The ledger keeps lengths. Those before the first token lie one behind the other and end with it;
// where it never came they begin with the request.
std::array<Stretch, 6> stretches_of(const store::Clocks& c) {
  std::array<Stretch, 6> all{{{"text", {}, c.text_work},
                              {"model load", {}, c.model_load},
                              {"queue", {}, c.queue_wait},
                              {"prefill", {}, c.prefill},
                              {"inference", {}, c.inference},
                              {"deliver", {}, c.deliver}}};
  Duration before{};
  for (std::size_t i = 0; i < 4; ++i) before += std::max(all[i].length, Duration{});
  const bool began = c.first_token >= Duration{};
  Duration at = began ? std::max(c.first_token - before, Duration{}) : Duration{};
  for (std::size_t i = 0; i < 4; ++i) {
    all[i].begin = at;
    at += std::max(all[i].length, Duration{});
  }
  all[4].begin = all[5].begin = std::max(c.first_token, Duration{});
  return all;
}

std::string spans_of(const store::UsageRow& row) {
  const Ids ids = ids_of(row);
  const std::int64_t from = row.accepted_unix_ms * 1'000'000;
  const std::int64_t to = from + std::max(row.clocks.total, Duration{}).count();
  const bool failed =
      row.outcome == store::Outcome::Failed || row.outcome == store::Outcome::Refused;
  const std::string name =
      row.operation.empty() ? row.model : fmt::format("{} {}", row.operation, row.model);
  std::string out = fmt::format(
      R"({{"traceId":"{}","spanId":"{}","name":{},"kind":{},"startTimeUnixNano":"{}",)"
      R"("endTimeUnixNano":"{}","attributes":[{}],"status":{{{}}}}})",
      ids.trace, ids.root, json_quoted(name), kServer, from, to, attributes_of(row),
      failed ? fmt::format(R"("code":{},"message":{})", kStatusError, json_quoted(row.reason))
             : "");
  std::uint64_t n = 0;
  for (const Stretch& s : stretches_of(row.clocks)) {
    ++n;
    if (s.length < Duration{}) continue;
    const std::int64_t begin = std::min(from + s.begin.count(), to);
    out += fmt::format(
        R"(,{{"traceId":"{}","spanId":"{:016x}","parentSpanId":"{}","name":"{}","kind":{},)"
        R"("startTimeUnixNano":"{}","endTimeUnixNano":"{}"}})",
        ids.trace, mix64(hash_combine(ids.seed, n)) | 1U, ids.root, s.name, kInternal, begin,
        std::min(begin + s.length.count(), to));
  }
  return out;
}

// The collector's address, and what of it takes traces.
std::optional<WebhookUrl> traces_url(const std::string& endpoint) {
  if (endpoint.empty()) return std::nullopt;
  auto url = parse_webhook_url(endpoint);
  if (!url) return std::nullopt;
  if (url->target.ends_with(kPath)) return *url;
  while (url->target.ends_with('/')) url->target.pop_back();
  url->target += kPath;
  return *url;
}

Counter& counted(Metrics& metrics, std::string_view result) {
  return metrics.counter("lares_traces_total", "Traces for telemetry.otlp_endpoint.",
                         label("result", result));
}

}  // namespace

Traces::Traces(std::unique_ptr<Resolver> resolver, std::unique_ptr<Transport> transport,
               TracesOptions options, Metrics& metrics)
    : resolver_(std::move(resolver)),
      transport_(std::move(transport)),
      options_(std::move(options)),
      url_(traces_url(options_.endpoint)),
      sent_(counted(metrics, "sent")),
      dropped_(counted(metrics, "dropped")) {
  if (url_ && options_.own_thread) thread_ = std::thread([this] { run(); });
}

Traces::~Traces() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Traces::ended(const store::UsageRow& row) {
  if (!url_) return;
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= options_.queue_max) {
    dropped_.add();
    return;
  }
  waiting_.push_back(row);
  if (waiting_.size() == options_.batch_max) wake_.notify_all();
}

bool Traces::send_next() {
  std::vector<store::UsageRow> batch;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t count = std::min(waiting_.size(), options_.batch_max);
    batch.assign(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  if (batch.empty()) return false;
  const auto posted = post(traces_json(batch, options_.version));
  if (!posted && !failing_) {
    log_warn("traces are not taken",
             {{"endpoint", url_->authority}, {"error", posted.error().message}});
  }
  failing_ = !posted;
  // What cannot become right by waiting is not tried again.
  const bool hopeless = !posted && posted.error().code == Code::Invalid;
  if (!posted && !hopeless && ++tries_ < options_.tries_max) return false;
  tries_ = 0;
  (posted ? sent_ : dropped_).add(static_cast<double>(batch.size()));
  const std::lock_guard lock(mutex_);
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(batch.size()));
  return posted.has_value();
}

Result<> Traces::post(const std::string& body) {
  const auto addresses = TRY(resolver_->resolve(url_->host));
  Error last{Code::Unavailable, fmt::format("{} has no address", url_->host)};
  for (const NetAddress& address : addresses) {
    const auto status = transport_->post(*url_, address, {}, body, options_.deadline);
    if (!status) {
      last = status.error();
      continue;
    }
    if (*status >= 200 && *status < 300) return {};
    // Those that OTLP names as worth another try.
    const bool later = *status == 429 || *status == 502 || *status == 503 || *status == 504;
    return fail(later ? Code::Unavailable : Code::Invalid,
                fmt::format("the collector answered with status {}", *status));
  }
  return tl::unexpected(last);
}

void Traces::run() {
  while (true) {
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, options_.every, [this] {
        return stop_ || (waiting_.size() >= options_.batch_max && tries_ == 0);
      });
      stopping = stop_;
    }
    while (send_next()) continue;
    if (!stopping) continue;
    const std::lock_guard lock(mutex_);
    dropped_.add(static_cast<double>(waiting_.size()));
    return;
  }
}

std::string traces_json(std::span<const store::UsageRow> rows, std::string_view version) {
  std::string spans;
  for (const store::UsageRow& row : rows) spans += (spans.empty() ? "" : ",") + spans_of(row);
  return fmt::format(
      R"({{"resourceSpans":[{{"resource":{{"attributes":[{},{}]}},)"
      R"("scopeSpans":[{{"scope":{{"name":"lares","version":{}}},"spans":[{}]}}]}}]}})",
      text("service.name", "lares"), text("service.version", version), json_quoted(version), spans);
}

}  // namespace lares::server
