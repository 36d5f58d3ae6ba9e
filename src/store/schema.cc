#include "store/schema.h"

#include <array>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace lares::store {
namespace {

// One entry a version: what brings a file of the version before it up to it. Entries are never
// changed once released, only added.
constexpr std::array kMigrations = {
    R"sql(
  CREATE TABLE usage (
    job INTEGER NOT NULL,
    accepted_unix_ms INTEGER NOT NULL,
    member TEXT NOT NULL,
    class TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    device_ns INTEGER NOT NULL,
    -- Clocks; NULL = never reached.
    queue_wait_ns INTEGER,
    model_load_ns INTEGER,
    text_work_ns INTEGER,
    prefill_ns INTEGER,
    inference_ns INTEGER,
    deliver_ns INTEGER,
    first_token_ns INTEGER,
    total_ns INTEGER,
    outcome TEXT NOT NULL CHECK (outcome IN ('done', 'failed', 'cancelled', 'refused')),
    reason TEXT NOT NULL
  ) STRICT;
  CREATE INDEX usage_accepted ON usage (accepted_unix_ms);
)sql",
    R"sql(
  -- AUTOINCREMENT: the id of a member that was removed is given to nobody else. 0 is `home`.
  CREATE TABLE member (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    key_hash TEXT NOT NULL UNIQUE,
    classes TEXT NOT NULL,  -- Separated by commas.
    default_class TEXT NOT NULL,
    weight_permille INTEGER NOT NULL CHECK (weight_permille BETWEEN 100 AND 100000),
    admin INTEGER NOT NULL CHECK (admin IN (0, 1)),
    -- Limits; 0 = none.
    in_flight INTEGER NOT NULL CHECK (in_flight >= 0),
    queued INTEGER NOT NULL CHECK (queued >= 0),
    tokens_a_day INTEGER NOT NULL CHECK (tokens_a_day >= 0),
    device_seconds_a_day INTEGER NOT NULL CHECK (device_seconds_a_day >= 0),
    created_unix_ms INTEGER NOT NULL
  ) STRICT;
  ALTER TABLE usage ADD COLUMN member_id INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX usage_member ON usage (member_id);
)sql",
    R"sql(
  -- The journal (store/journal.h). seq is the order of acceptance; id is what clients know.
  CREATE TABLE job (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    member_id INTEGER NOT NULL,
    member TEXT NOT NULL,
    class TEXT NOT NULL,
    kind TEXT NOT NULL,  -- The path of the request that it wraps.
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    idempotency_key TEXT,
    request_digest TEXT NOT NULL,
    created_unix_ms INTEGER NOT NULL,
    started_unix_ms INTEGER,
    ended_unix_ms INTEGER,
    tries INTEGER NOT NULL DEFAULT 0,  -- Attempts in a row that brought nothing.
    seed INTEGER,                      -- Of its sampling, with the first checkpoint.
    error_code TEXT NOT NULL DEFAULT '',
    error_message TEXT NOT NULL DEFAULT ''
  ) STRICT;
  CREATE UNIQUE INDEX job_idempotency ON job (member_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
  CREATE INDEX job_member ON job (member_id, seq);
  CREATE INDEX job_open ON job (seq) WHERE state IN ('queued', 'running');
  CREATE INDEX job_ended ON job (ended_unix_ms) WHERE ended_unix_ms IS NOT NULL;
  CREATE TABLE attempt (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    session INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    ended_unix_ms INTEGER,
    device_ns INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',  -- Why it ended, if not well.
    PRIMARY KEY (job, number)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX attempt_session ON attempt (session);
  CREATE TABLE event (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    unix_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL,  -- JSON.
    PRIMARY KEY (job, number)
  ) STRICT, WITHOUT ROWID;
  -- The request, the result, and what lies between. Small ones are in the row, others are blobs.
  CREATE TABLE artefact (
    job INTEGER NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    status INTEGER NOT NULL,  -- Of an HTTP answer; 0 of anything else.
    size INTEGER NOT NULL,
    bytes BLOB,
    blob TEXT,
    PRIMARY KEY (job, name)
  ) STRICT;
  CREATE TABLE blob (hash TEXT PRIMARY KEY, size INTEGER NOT NULL, refs INTEGER NOT NULL) STRICT;
  CREATE TABLE checkpoint (
    job INTEGER NOT NULL,
    part INTEGER NOT NULL,  -- A choice of a text.
    bytes BLOB NOT NULL,
    PRIMARY KEY (job, part)
  ) STRICT, WITHOUT ROWID;
  -- Jobs that retention took away: they answer 410 and not 404, and their usage rows are known.
  CREATE TABLE expired (
    id TEXT PRIMARY KEY,
    member_id INTEGER NOT NULL,
    unix_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  -- One row a run of the server: where the device's time went. See DeviceTotals.
  CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    started_unix_ms INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL DEFAULT 0,
    busy_ns INTEGER NOT NULL DEFAULT 0,
    idle_ns INTEGER NOT NULL DEFAULT 0,
    overhead_ns INTEGER NOT NULL DEFAULT 0,
    open_ns INTEGER NOT NULL DEFAULT 0,
    unclaimed_ns INTEGER NOT NULL DEFAULT 0,
    expired_ns INTEGER NOT NULL DEFAULT 0  -- Of attempts that retention took away.
  ) STRICT;
  ALTER TABLE usage ADD COLUMN job_id TEXT;      -- Of a job of the journal, its id.
  ALTER TABLE usage ADD COLUMN session INTEGER;  -- In which run it ended; NULL: before there were.
  CREATE UNIQUE INDEX usage_job ON usage (job_id) WHERE job_id IS NOT NULL;
  CREATE INDEX usage_session ON usage (session) WHERE job_id IS NULL;
)sql",
    R"sql(
  -- Latents that somebody keeps (store/latent_record.h), with what their numbers mean.
  CREATE TABLE latent (
    id TEXT PRIMARY KEY,
    member_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    space TEXT NOT NULL,
    family TEXT NOT NULL,
    channels INTEGER NOT NULL,
    factor INTEGER NOT NULL,
    scale_millionths INTEGER NOT NULL,
    shift_millionths INTEGER NOT NULL,
    width INTEGER NOT NULL,   -- Cells.
    height INTEGER NOT NULL,
    dtype TEXT NOT NULL CHECK (dtype IN ('f32', 'f16')),
    -- Of one that is not clean; NULL = it is.
    noise_done INTEGER,
    noise_steps INTEGER,
    sampler TEXT,
    cfg_millionths INTEGER,
    seed INTEGER,
    created_unix_ms INTEGER NOT NULL,
    expires_unix_ms INTEGER NOT NULL,
    size INTEGER NOT NULL,
    bytes BLOB,               -- Small ones; others are blobs; neither: it is gone.
    blob TEXT,
    gone_unix_ms INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE INDEX latent_blob ON latent (blob) WHERE blob IS NOT NULL;
  CREATE TABLE latent_share (
    latent TEXT NOT NULL,
    member_id INTEGER NOT NULL,
    PRIMARY KEY (latent, member_id)
  ) STRICT, WITHOUT ROWID;
  -- Who is to be told when a job is over. `waiting` for its end, `due` until somebody has heard.
  CREATE TABLE webhook (
    job INTEGER PRIMARY KEY,
    url TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'due', 'done', 'failed')),
    tries INTEGER NOT NULL DEFAULT 0,
    due_unix_ms INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT ''  -- Of the last try that failed.
  ) STRICT;
  CREATE INDEX webhook_due ON webhook (due_unix_ms) WHERE state = 'due';
)sql",
    R"sql(
  -- Lists of jobs stay quick however long the history is: each way to filter walks one of these
  -- from the newest on.
  CREATE INDEX job_state ON job (state, seq);
  CREATE INDEX job_class ON job (class, seq);
  CREATE INDEX job_member_state ON job (member_id, state, seq);
  CREATE INDEX job_member_class ON job (member_id, class, seq);
)sql"};
constexpr auto kSchemaVersion = static_cast<std::int64_t>(kMigrations.size());

std::string database_path(const std::string& folder) {
  return folder + "/lares.db";
}

// The folder, made if it is not there, or why it cannot be used.
Result<> make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder, error)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    return fail(Code::Io, fmt::format("the data folder {} cannot be used: {}. Choose another with "
                                      "--data or server.data",
                                      folder, error.message()));
  }
  return {};
}

Result<> check_version(const Database& database, std::int64_t version) {
  if (version <= kSchemaVersion) return {};
  return fail(Code::Unsupported,
              fmt::format("{} was written by a newer release (schema {}; this one knows {}). "
                          "Install that release, or choose another folder with --data",
                          database.path(), version, kSchemaVersion));
}

Result<> migrate(Database& database) {
  // FULL would wait for the disk at each commit. With NORMAL a power cut may lose the last rows,
  // never the file's consistency. The journal's own connection waits (store/journal.cc).
  TRY_VOID(database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"));
  Transaction transaction = TRY(Transaction::begin(database));
  const std::int64_t version = TRY(database.user_version());
  TRY_VOID(check_version(database, version));
  for (std::int64_t v = version; v < kSchemaVersion; ++v) {
    TRY_VOID(database.execute(kMigrations[static_cast<std::size_t>(v)]));
  }
  TRY_VOID(database.execute(fmt::format("PRAGMA user_version={}", kSchemaVersion)));
  return transaction.commit();
}

}  // namespace

Result<Database> open_database(const std::string& folder) {
  TRY_VOID(make_folder(folder));
  Database database = TRY(Database::open(database_path(folder), Access::ReadWrite));
  TRY_VOID(migrate(database));
  return database;
}

Result<Database> open_existing_database(const std::string& folder, Access access,
                                        const std::string& missing) {
  std::error_code error;
  if (!std::filesystem::exists(database_path(folder), error)) return fail(Code::NotFound, missing);
  Database database = TRY(Database::open(database_path(folder), access));
  const std::int64_t version = TRY(database.user_version());
  TRY_VOID(check_version(database, version));
  if (version == kSchemaVersion) return database;
  TRY(open_database(folder));  // Older: brought up to date by one who may write.
  return database;
}

}  // namespace lares::store
