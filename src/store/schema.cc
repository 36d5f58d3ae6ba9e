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
  // never the file's consistency; the ledger can bear that as long as no job survives a restart
  // either.
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
