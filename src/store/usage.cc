#include "store/usage.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "store/sqlite.h"

namespace lares::store {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

// One entry a version: what brings a file of the version before it up to it. Entries are never
// changed once released, only added.
constexpr const char* kMigrations[kSchemaVersion] = {R"sql(
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
)sql"};

constexpr const char* kInsert = "INSERT INTO usage VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

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

Result<> migrate(Database& database) {
  // FULL would wait for the disk at each commit. With NORMAL a power cut may lose the last rows,
  // never the file's consistency; the ledger can bear that as long as no job survives a restart
  // either.
  TRY_VOID(database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"));
  Transaction transaction = TRY(Transaction::begin(database));
  const std::int64_t version = TRY(database.user_version());
  if (version > kSchemaVersion) {
    return fail(Code::Unsupported,
                fmt::format("{} was written by a newer release (schema {}; this one knows {}). "
                            "Install that release, or choose another folder with --data",
                            database.path(), version, kSchemaVersion));
  }
  for (std::int64_t v = version; v < kSchemaVersion; ++v) {
    TRY_VOID(database.execute(kMigrations[v]));
  }
  TRY_VOID(database.execute(fmt::format("PRAGMA user_version={}", kSchemaVersion)));
  return transaction.commit();
}

void bind_clock(Statement& statement, Duration clock) {
  if (clock < Duration{0}) {
    statement.bind_null();
  } else {
    statement.bind(clock.count());
  }
}

void bind_row(Statement& statement, const UsageRow& row) {
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
}

std::string_view key_of(UsageBy by) {
  switch (by) {
    case UsageBy::Member: return "member";
    case UsageBy::Class: return "class";
    case UsageBy::Model: return "model";
    // Days as people at this machine count them.
    case UsageBy::Day:
      return "strftime('%Y-%m-%d', accepted_unix_ms / 1000, 'unixepoch', 'localtime')";
  }
  return "member";
}

class SqliteLedger : public UsageLedger {
 public:
  explicit SqliteLedger(Database database) : database_(std::move(database)) {}

  Result<> record(const std::vector<UsageRow>& rows) override {
    if (rows.empty()) return {};
    Transaction transaction = TRY(Transaction::begin(database_));
    Statement insert = TRY(database_.prepare(kInsert));
    for (const UsageRow& row : rows) {
      bind_row(insert, row);
      TRY_VOID(insert.run());
    }
    return transaction.commit();
  }

  Result<std::vector<UsageSum>> sum(UsageBy by) override {
    Statement query = TRY(database_.prepare(fmt::format(
        "SELECT {} AS key, count(*), sum(outcome IN ('failed', 'refused')), "
        "sum(outcome = 'cancelled'), sum(prompt_tokens), sum(cached_tokens), sum(output_tokens), "
        "sum(device_ns) / 1e9, avg(queue_wait_ns) / 1e9, avg(first_token_ns) / 1e9 "
        "FROM usage GROUP BY key ORDER BY key",
        key_of(by))));
    std::vector<UsageSum> sums;
    while (TRY(query.row())) {
      UsageSum sum;
      sum.key = query.text(0);
      sum.requests = static_cast<std::uint64_t>(query.integer(1));
      sum.failed = static_cast<std::uint64_t>(query.integer(2));
      sum.cancelled = static_cast<std::uint64_t>(query.integer(3));
      sum.prompt_tokens = static_cast<std::uint64_t>(query.integer(4));
      sum.cached_tokens = static_cast<std::uint64_t>(query.integer(5));
      sum.output_tokens = static_cast<std::uint64_t>(query.integer(6));
      sum.device_s = query.real(7);
      sum.queue_wait_s_mean = query.real(8);
      sum.first_token_s_mean = query.real(9);
      sums.push_back(std::move(sum));
    }
    return sums;
  }

 private:
  Database database_;
};

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::Done: return "done";
    case Outcome::Failed: return "failed";
    case Outcome::Cancelled: return "cancelled";
    case Outcome::Refused: return "refused";
  }
  return "done";
}

Result<std::unique_ptr<UsageLedger>> UsageLedger::open(const std::string& folder) {
  TRY_VOID(make_folder(folder));
  Database database = TRY(Database::open(database_path(folder), Access::ReadWrite));
  TRY_VOID(migrate(database));
  return std::make_unique<SqliteLedger>(std::move(database));
}

Result<std::unique_ptr<UsageLedger>> UsageLedger::open_existing(const std::string& folder) {
  const std::string path = database_path(folder);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return fail(
        Code::NotFound,
        fmt::format("there is no usage ledger in {} yet; `lares serve` starts one", folder));
  }
  Database database = TRY(Database::open(path, Access::ReadOnly));
  const std::int64_t version = TRY(database.user_version());
  if (version != kSchemaVersion) {
    return fail(Code::Unsupported, fmt::format("{} has schema {}; this release reads {}", path,
                                               version, kSchemaVersion));
  }
  return std::make_unique<SqliteLedger>(std::move(database));
}

}  // namespace lares::store
