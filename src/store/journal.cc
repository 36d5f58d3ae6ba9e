#include "store/journal.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/text.h"
#include "store/schema.h"
#include "store/usage_rows.h"

namespace lares::store {
namespace {

constexpr std::string_view kColumns =
    "seq, id, member_id, member, class, kind, state, request_digest, created_unix_ms, "
    "started_unix_ms, ended_unix_ms, tries, (SELECT count(*) FROM attempt WHERE job = seq), seed, "
    "error_code, error_message";

// The schema lets no other in, but a disk may change what was written.
Result<JobState> state_of(std::string_view name) {
  const auto found = std::ranges::find(kJobStates, name);
  if (found == kJobStates.end())
    return fail(Code::Corrupt, fmt::format("the journal holds a job in the state `{}`", name));
  return static_cast<JobState>(found - kJobStates.begin());
}

Result<JobRecord> record_of(const Statement& row) {
  JobRecord job;
  job.seq = row.integer(0);
  job.id = row.text(1);
  job.member_id = MemberId{static_cast<std::uint32_t>(row.integer(2))};
  job.member = row.text(3);
  job.cls = row.text(4);
  job.kind = row.text(5);
  job.state = TRY(state_of(row.text(6)));
  job.request_digest = row.text(7);
  job.created_unix_ms = row.integer(8);
  job.started_unix_ms = row.integer(9);
  job.ended_unix_ms = row.integer(10);
  job.tries = static_cast<std::uint32_t>(row.integer(11));
  job.attempts = static_cast<std::uint32_t>(row.integer(12));
  if (!row.is_null(13)) job.seed = static_cast<std::uint64_t>(row.integer(13));
  job.error_code = row.text(14);
  job.error_message = row.text(15);
  return job;
}

Result<std::vector<JobRecord>> all_rows(Statement query) {
  std::vector<JobRecord> jobs;
  while (TRY(query.row())) jobs.push_back(TRY(record_of(query)));
  return jobs;
}

Result<std::optional<JobRecord>> one_row(Statement query) {
  if (!TRY(query.row())) return std::optional<JobRecord>();
  return std::optional(TRY(record_of(query)));
}

std::string reason_json(std::string_view code, std::string_view message) {
  return fmt::format(R"({{"code":{},"message":{}}})", json_quoted(code), json_quoted(message));
}

}  // namespace

Result<std::unique_ptr<Journal>> Journal::open(const std::string& folder) {
  Database database = TRY(open_database(folder));
  // An accepted job is on the disk before its client hears so.
  TRY_VOID(database.execute("PRAGMA synchronous=FULL"));
  std::unordered_set<std::string> known;
  {
    Statement blobs = TRY(database.prepare("SELECT hash FROM blob"));
    while (TRY(blobs.row())) known.emplace(blobs.text(0));
  }
  BlobStore store(folder + "/blobs");
  store.sweep([&](const std::string& hash) { return known.contains(hash); });
  return std::unique_ptr<Journal>(new Journal(std::move(database), std::move(store)));
}

Result<std::unique_ptr<Journal>> Journal::open_existing(const std::string& folder) {
  Database database = TRY(open_existing_database(
      folder, Access::ReadOnly,
      fmt::format("there is no journal in {} yet; `lares serve` starts one", folder)));
  return std::unique_ptr<Journal>(new Journal(std::move(database), BlobStore(folder + "/blobs")));
}

Result<> Journal::begin() {
  LARES_ASSERT(!transaction_, "one transaction at a time");
  transaction_.emplace(TRY(Transaction::begin(database_)));
  return {};
}

Result<> Journal::commit() {
  LARES_ASSERT(transaction_.has_value(), "there is something to commit");
  if (const auto committed = transaction_->commit(); !committed) {
    roll_back();
    return committed;
  }
  transaction_.reset();
  fresh_.clear();
  // A blob that was let go and put again in the same transaction has its row.
  for (const std::string& hash : std::exchange(doomed_, {})) {
    auto row = database_.prepare("SELECT 1 FROM blob WHERE hash = ?");
    if (!row) continue;
    row->bind(hash);
    if (const auto found = row->row(); found && !*found) blobs_.remove(hash);
  }
  return {};
}

void Journal::roll_back() {
  transaction_.reset();
  doomed_.clear();
  for (const std::string& hash : std::exchange(fresh_, {})) {
    auto row = database_.prepare("SELECT 1 FROM blob WHERE hash = ?");
    if (!row) continue;
    row->bind(hash);
    if (const auto found = row->row(); found && !*found) blobs_.remove(hash);
  }
}

Result<JobRecord> Journal::add(const NewJob& job) {
  Statement insert =
      TRY(database_.prepare("INSERT INTO job (id, member_id, member, class, kind, state, "
                            "idempotency_key, request_digest, created_unix_ms) "
                            "VALUES (?,?,?,?,?,'queued',?,?,?)"));
  insert.bind(job.id);
  insert.bind(std::int64_t{job.member_id.value});
  insert.bind(job.member);
  insert.bind(job.cls);
  insert.bind(job.kind);
  if (job.idempotency_key.empty()) {
    insert.bind_null();
  } else {
    if (TRY(find_by_key(job.member_id, job.idempotency_key)))
      return fail(Code::Conflict, "this Idempotency-Key was used before");
    insert.bind(job.idempotency_key);
  }
  insert.bind(job.request_digest);
  insert.bind(job.unix_ms);
  TRY_VOID(insert.run());
  const std::int64_t seq = database_.last_row();
  Artefact request = job.request;
  request.name = kRequest;
  TRY_VOID(put_artefact(seq, request));
  TRY_VOID(add_event(seq, "queued", "{}", job.unix_ms));
  if (!job.webhook.empty()) TRY_VOID(add_webhook(seq, job.webhook));
  return *TRY(find(job.id));
}

Result<std::optional<JobRecord>> Journal::find(std::string_view id) {
  Statement query =
      TRY(database_.prepare(fmt::format("SELECT {} FROM job WHERE id = ?", kColumns)));
  query.bind(id);
  return one_row(std::move(query));
}

Result<std::optional<JobRecord>> Journal::find_by_key(MemberId member, std::string_view key) {
  Statement query = TRY(database_.prepare(
      fmt::format("SELECT {} FROM job WHERE member_id = ? AND idempotency_key = ?", kColumns)));
  query.bind(std::int64_t{member.value});
  query.bind(key);
  return one_row(std::move(query));
}

Result<std::optional<MemberId>> Journal::find_expired(std::string_view id) {
  Statement query = TRY(database_.prepare("SELECT member_id FROM expired WHERE id = ?"));
  query.bind(id);
  if (!TRY(query.row())) return std::optional<MemberId>();
  return std::optional(MemberId{static_cast<std::uint32_t>(query.integer(0))});
}

Result<std::vector<JobRecord>> Journal::list(const JobFilter& filter) {
  std::string where = filter.before > 0 ? "seq < ?" : "seq > ?";
  if (filter.member) where += " AND member_id = ?";
  if (filter.state) where += " AND state = ?";
  if (!filter.cls.empty()) where += " AND class = ?";
  Statement query = TRY(database_.prepare(
      fmt::format("SELECT {} FROM job WHERE {} ORDER BY seq DESC LIMIT ?", kColumns, where)));
  query.bind(filter.before);
  if (filter.member) query.bind(std::int64_t{filter.member->value});
  if (filter.state) query.bind(job_state_name(*filter.state));
  if (!filter.cls.empty()) query.bind(filter.cls);
  query.bind(std::int64_t{filter.limit});
  return all_rows(std::move(query));
}

Result<std::vector<JobRecord>> Journal::recover(std::int64_t unix_ms) {
  // What the checkpoints of an attempt claimed was open in its session's books.
  TRY_VOID(database_.execute(
      "UPDATE session SET open_ns = open_ns - coalesce((SELECT sum(device_ns) FROM attempt "
      "WHERE session = session.id AND ended_unix_ms IS NULL), 0) WHERE id IN "
      "(SELECT session FROM attempt WHERE ended_unix_ms IS NULL)"));
  Statement ended = TRY(
      database_.prepare("UPDATE attempt SET ended_unix_ms = ?, reason = 'the server stopped while "
                        "it ran' WHERE ended_unix_ms IS NULL"));
  ended.bind(unix_ms);
  TRY_VOID(ended.run());
  TRY_VOID(database_.execute("UPDATE job SET state = 'queued' WHERE state = 'running'"));
  return all_rows(TRY(database_.prepare(fmt::format(
      "SELECT {} FROM job WHERE state IN ('queued', 'running') ORDER BY seq", kColumns))));
}

Result<std::uint32_t> Journal::begin_attempt(std::int64_t seq, std::int64_t unix_ms) {
  Statement job = TRY(
      database_.prepare("UPDATE job SET state = 'running', tries = tries + 1, started_unix_ms = "
                        "coalesce(started_unix_ms, ?) WHERE seq = ? AND state = 'queued'"));
  job.bind(unix_ms);
  job.bind(seq);
  TRY_VOID(job.run());
  if (database_.changes() == 0) return 0;  // Over already.
  Statement next =
      TRY(database_.prepare("SELECT coalesce(max(number), 0) + 1 FROM attempt WHERE job = ?"));
  next.bind(seq);
  TRY(next.row());
  const std::int64_t number = next.integer(0);
  Statement attempt = TRY(database_.prepare(
      "INSERT INTO attempt (job, number, session, started_unix_ms) VALUES (?,?,?,?)"));
  attempt.bind(seq);
  attempt.bind(number);
  attempt.bind(session_);
  attempt.bind(unix_ms);
  TRY_VOID(attempt.run());
  TRY_VOID(add_event(seq, "running", fmt::format(R"({{"attempt":{}}})", number), unix_ms));
  return static_cast<std::uint32_t>(number);
}

Result<> Journal::save_progress(std::int64_t seq, const Progress& progress) {
  Statement attempt = TRY(database_.prepare(
      "UPDATE attempt SET device_ns = ? WHERE job = ? AND ended_unix_ms IS NULL"));
  attempt.bind(progress.device.count());
  attempt.bind(seq);
  TRY_VOID(attempt.run());
  if (database_.changes() == 0) return {};
  if (!progress.advanced) return {};
  Statement job =
      TRY(database_.prepare("UPDATE job SET tries = 0, seed = coalesce(?, seed) WHERE seq = ?"));
  if (progress.seed) {
    job.bind(static_cast<std::int64_t>(*progress.seed));
  } else {
    job.bind_null();
  }
  job.bind(seq);
  TRY_VOID(job.run());
  Statement part =
      TRY(database_.prepare("INSERT INTO checkpoint (job, part, bytes) VALUES (?,?,?) "
                            "ON CONFLICT DO UPDATE SET bytes = excluded.bytes"));
  for (const Checkpoint& checkpoint : progress.parts) {
    part.reset();
    part.bind(seq);
    part.bind(std::int64_t{checkpoint.part});
    part.bind_bytes(checkpoint.bytes);
    TRY_VOID(part.run());
  }
  return {};
}

Result<std::vector<Checkpoint>> Journal::checkpoints(std::int64_t seq) {
  Statement query =
      TRY(database_.prepare("SELECT part, bytes FROM checkpoint WHERE job = ? ORDER BY part"));
  query.bind(seq);
  std::vector<Checkpoint> parts;
  while (TRY(query.row())) {
    parts.push_back({static_cast<std::uint32_t>(query.integer(0)), std::string(query.bytes(1))});
  }
  return parts;
}

// Returns what all attempts of the job took.
Result<Duration> Journal::close_attempt(std::int64_t seq, const std::string& reason,
                                        std::optional<Duration> device, std::int64_t unix_ms) {
  Statement attempt =
      TRY(database_.prepare("UPDATE attempt SET ended_unix_ms = ?, reason = ?, "
                            "device_ns = coalesce(?, device_ns) "
                            "WHERE job = ? AND ended_unix_ms IS NULL"));
  attempt.bind(unix_ms);
  attempt.bind(reason);
  if (device) {
    attempt.bind(device->count());
  } else {
    attempt.bind_null();
  }
  attempt.bind(seq);
  TRY_VOID(attempt.run());
  Statement sum =
      TRY(database_.prepare("SELECT coalesce(sum(device_ns), 0) FROM attempt WHERE job = ?"));
  sum.bind(seq);
  TRY(sum.row());
  return Duration(sum.integer(0));
}

Result<> Journal::end_attempt(std::int64_t seq, const std::string& reason, Duration device,
                              Tries tries, std::int64_t unix_ms) {
  Statement job =
      TRY(database_.prepare("UPDATE job SET state = 'queued', tries = max(tries - ?, 0) "
                            "WHERE seq = ? AND state = 'running'"));
  job.bind(std::int64_t{tries == Tries::Forgive ? 1 : 0});
  job.bind(seq);
  TRY_VOID(job.run());
  if (database_.changes() == 0) return {};
  TRY_VOID(close_attempt(seq, reason, device, unix_ms));
  return add_event(seq, "retrying", reason_json("attempt_ended", reason), unix_ms);
}

Result<> Journal::end(std::int64_t seq, JobEnd end) {
  LARES_ASSERT(is_over(end.state), "a job ends in a state that is over");
  Statement job =
      TRY(database_.prepare("UPDATE job SET state = ?, ended_unix_ms = ?, error_code = ?, "
                            "error_message = ? WHERE seq = ? AND state IN ('queued', 'running') "
                            "RETURNING id"));
  job.bind(job_state_name(end.state));
  job.bind(end.unix_ms);
  job.bind(end.error_code);
  job.bind(end.error_message);
  job.bind(seq);
  if (!TRY(job.row())) return {};
  end.usage.job_id = job.text(0);
  TRY(job.row());
  job.reset();
  end.usage.device = TRY(close_attempt(seq, end.error_message, end.usage.device, end.unix_ms));
  TRY_VOID(insert_usage(database_, std::span(&end.usage, 1), session_));
  if (end.result) {
    end.result->name = kResult;
    TRY_VOID(put_artefact(seq, *end.result));
  }
  for (const Artefact& file : end.files) TRY_VOID(put_artefact(seq, file));
  TRY_VOID(set_webhook_due(seq, end.unix_ms));
  Statement part = TRY(database_.prepare("DELETE FROM checkpoint WHERE job = ?"));
  part.bind(seq);
  TRY_VOID(part.run());
  const std::string data =
      end.error_code.empty() ? "{}" : reason_json(end.error_code, end.error_message);
  return add_event(seq, job_state_name(end.state), data, end.unix_ms);
}

Result<> Journal::reopen(std::int64_t seq, std::int64_t unix_ms) {
  Statement job =
      TRY(database_.prepare("UPDATE job SET state = 'queued', tries = 0, ended_unix_ms = NULL, "
                            "error_code = '', error_message = '', seed = NULL "
                            "WHERE seq = ? AND state IN ('failed', 'cancelled')"));
  job.bind(seq);
  TRY_VOID(job.run());
  if (database_.changes() == 0) {
    return fail(Code::Conflict, "only a job that failed or was cancelled is tried again");
  }
  for (const ArtefactHead& artefact : TRY(artefacts(seq))) {
    if (artefact.name.starts_with(kResult)) TRY_VOID(drop_artefact(seq, artefact.name));
  }
  return add_event(seq, "queued", R"({"retry":true})", unix_ms);
}

Result<std::vector<Attempt>> Journal::attempts(std::int64_t seq) {
  Statement query = TRY(database_.prepare(
      "SELECT number, started_unix_ms, ended_unix_ms, device_ns, reason FROM attempt "
      "WHERE job = ? ORDER BY number"));
  query.bind(seq);
  std::vector<Attempt> attempts;
  while (TRY(query.row())) {
    attempts.push_back({static_cast<std::uint32_t>(query.integer(0)), query.integer(1),
                        query.integer(2), Duration(query.integer(3)), std::string(query.text(4))});
  }
  return attempts;
}

Result<> Journal::add_event(std::int64_t seq, std::string_view name, std::string_view data,
                            std::int64_t unix_ms) {
  Statement insert = TRY(
      database_.prepare("INSERT INTO event (job, number, unix_ms, name, data) VALUES (?, (SELECT "
                        "coalesce(max(number), 0) + 1 FROM event WHERE job = ?), ?, ?, ?)"));
  insert.bind(seq);
  insert.bind(seq);
  insert.bind(unix_ms);
  insert.bind(name);
  insert.bind(data);
  return insert.run();
}

Result<std::vector<JobEvent>> Journal::events(std::int64_t seq, std::int64_t after) {
  Statement query =
      TRY(database_.prepare("SELECT number, unix_ms, name, data FROM event WHERE job = ? AND "
                            "number > ? ORDER BY number"));
  query.bind(seq);
  query.bind(after);
  std::vector<JobEvent> events;
  while (TRY(query.row())) {
    events.push_back({query.integer(0), query.integer(1), std::string(query.text(2)),
                      std::string(query.text(3))});
  }
  return events;
}

}  // namespace lares::store
