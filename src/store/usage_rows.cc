#include "store/usage_rows.h"

#include <string>

#include <fmt/format.h>

namespace lares::store {
namespace {

// A job that was tried again: the journal has summed up its device time; the clocks are those of
// its last attempt.
constexpr const char* kInsert =
    "INSERT INTO usage (job, accepted_unix_ms, member, class, model, prompt_tokens, cached_tokens, "
    "output_tokens, device_ns, queue_wait_ns, model_load_ns, text_work_ns, prefill_ns, "
    "inference_ns, deliver_ns, first_token_ns, total_ns, outcome, reason, member_id, job_id, "
    "session) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
    "ON CONFLICT (job_id) WHERE job_id IS NOT NULL DO UPDATE SET model = excluded.model, "
    "prompt_tokens = prompt_tokens + excluded.prompt_tokens, "
    "cached_tokens = cached_tokens + excluded.cached_tokens, "
    "output_tokens = output_tokens + excluded.output_tokens, "
    "device_ns = excluded.device_ns, "
    "queue_wait_ns = excluded.queue_wait_ns, model_load_ns = excluded.model_load_ns, "
    "text_work_ns = excluded.text_work_ns, prefill_ns = excluded.prefill_ns, "
    "inference_ns = excluded.inference_ns, deliver_ns = excluded.deliver_ns, "
    "first_token_ns = excluded.first_token_ns, total_ns = excluded.total_ns, "
    "outcome = excluded.outcome, reason = excluded.reason, session = excluded.session";

void bind_clock(Statement& statement, Duration clock) {
  if (clock < Duration{0}) {
    statement.bind_null();
  } else {
    statement.bind(clock.count());
  }
}

void bind_row(Statement& statement, const UsageRow& row, std::optional<std::int64_t> session) {
  statement.reset();
  // SQLite's integers are signed; a job id keeps its bits.
  statement.bind(static_cast<std::int64_t>(row.job));
  statement.bind(row.accepted_unix_ms);
  statement.bind(row.member);
  statement.bind(row.cls);
  statement.bind(row.model);
  statement.bind(std::int64_t{row.prompt_tokens});
  statement.bind(std::int64_t{row.cached_tokens});
  statement.bind(std::int64_t{row.output_tokens});
  statement.bind(row.device.count());
  bind_clock(statement, row.clocks.queue_wait);
  bind_clock(statement, row.clocks.model_load);
  bind_clock(statement, row.clocks.text_work);
  bind_clock(statement, row.clocks.prefill);
  bind_clock(statement, row.clocks.inference);
  bind_clock(statement, row.clocks.deliver);
  bind_clock(statement, row.clocks.first_token);
  bind_clock(statement, row.clocks.total);
  statement.bind(outcome_name(row.outcome));
  statement.bind(row.reason);
  statement.bind(std::int64_t{row.member_id.value});
  if (row.job_id.empty()) {
    statement.bind_null();
  } else {
    statement.bind(row.job_id);
  }
  if (session) {
    statement.bind(*session);
  } else {
    statement.bind_null();
  }
}

Duration clock_of(const Statement& row, int column) {
  return row.is_null(column) ? Duration(-1) : Duration(row.integer(column));
}

}  // namespace

UsageRow usage_of(const Statement& row) {
  UsageRow out;
  out.job = static_cast<std::uint64_t>(row.integer(0));
  out.accepted_unix_ms = row.integer(1);
  out.member = row.text(2);
  out.cls = row.text(3);
  out.model = row.text(4);
  out.prompt_tokens = static_cast<std::uint32_t>(row.integer(5));
  out.cached_tokens = static_cast<std::uint32_t>(row.integer(6));
  out.output_tokens = static_cast<std::uint32_t>(row.integer(7));
  out.device = Duration(row.integer(8));
  Duration* const clocks[] = {
      &out.clocks.queue_wait, &out.clocks.model_load, &out.clocks.text_work,   &out.clocks.prefill,
      &out.clocks.inference,  &out.clocks.deliver,    &out.clocks.first_token, &out.clocks.total};
  for (int i = 0; i < 8; ++i) *clocks[i] = clock_of(row, 9 + i);
  for (const Outcome outcome :
       {Outcome::Done, Outcome::Failed, Outcome::Cancelled, Outcome::Refused}) {
    if (row.text(17) == outcome_name(outcome)) out.outcome = outcome;
  }
  out.reason = row.text(18);
  out.member_id = MemberId{static_cast<std::uint32_t>(row.integer(19))};
  out.job_id = row.text(20);
  return out;
}

Result<> each_usage(Database& database, const std::function<void(const UsageRow&)>& row) {
  Statement query =
      TRY(database.prepare(fmt::format("SELECT {} FROM usage ORDER BY rowid", kUsageColumns)));
  while (TRY(query.row())) row(usage_of(query));
  return {};
}

Result<> insert_usage(Database& database, std::span<const UsageRow> rows,
                      std::optional<std::int64_t> session) {
  Statement insert = TRY(database.prepare(kInsert));
  for (const UsageRow& row : rows) {
    bind_row(insert, row, session);
    TRY_VOID(insert.run());
  }
  return {};
}

}  // namespace lares::store
