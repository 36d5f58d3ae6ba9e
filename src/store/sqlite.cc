#include "store/sqlite.h"

#include <unistd.h>

#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "core/assert.h"

namespace lares::store {
namespace {

// How long a statement waits for another process that holds the lock.
constexpr int kBusyTimeoutMs = 5000;

Code code_of(int primary) {
  switch (primary) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Code::Corrupt;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return Code::Busy;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH: return Code::Invalid;
    default: return Code::Io;
  }
}

// What failed, in words that say what to do where that is known.
Error error_of(sqlite3* database, const std::string& path) {
  const int extended = sqlite3_extended_errcode(database);
  const int primary = extended & 0xff;
  std::string reason = sqlite3_errmsg(database);
  if (primary == SQLITE_FULL) {
    reason = "the disk is full; make room and try again";
  } else if (primary == SQLITE_READONLY) {
    reason = "it cannot be written (read-only, or owned by somebody else)";
  } else if (primary == SQLITE_CANTOPEN || primary == SQLITE_IOERR || primary == SQLITE_PERM) {
    const int system = sqlite3_system_errno(database);
    if (system != 0) reason = fmt::format("{} ({})", reason, std::strerror(system));
  } else if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
    reason = fmt::format("{}; move it away to start with an empty one", reason);
  }
  return Error{code_of(primary), fmt::format("{}: {}", path, reason)};
}

Error error_of(sqlite3_stmt* statement) {
  sqlite3* database = sqlite3_db_handle(statement);
  const char* path = sqlite3_db_filename(database, "main");
  return error_of(database, path != nullptr ? path : "database");
}

}  // namespace

void Statement::Finalise::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  next_ = 1;
}

void Statement::bind(std::int64_t value) {
  const int result = sqlite3_bind_int64(statement_.get(), next_++, value);
  LARES_ASSERT(result == SQLITE_OK, "binding parameter {}: {}", next_ - 1, result);
}

void Statement::bind(std::string_view value) {
  const int result = sqlite3_bind_text64(statement_.get(), next_++, value.data(), value.size(),
                                         SQLITE_TRANSIENT, SQLITE_UTF8);
  LARES_ASSERT(result == SQLITE_OK, "binding parameter {}: {}", next_ - 1, result);
}

void Statement::bind_bytes(std::string_view value) {
  // Without bytes there is still a value: a null pointer would bind NULL.
  const char* data = value.data() == nullptr ? "" : value.data();
  const int result =
      sqlite3_bind_blob64(statement_.get(), next_++, data, value.size(), SQLITE_TRANSIENT);
  LARES_ASSERT(result == SQLITE_OK, "binding parameter {}: {}", next_ - 1, result);
}

void Statement::bind_null() {
  const int result = sqlite3_bind_null(statement_.get(), next_++);
  LARES_ASSERT(result == SQLITE_OK, "binding parameter {}: {}", next_ - 1, result);
}

Result<bool> Statement::row() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return tl::unexpected(error_of(statement_.get()));
}

Result<> Statement::run() {
  const Result<bool> more = row();
  reset();
  if (!more) return tl::unexpected(more.error());
  LARES_ASSERT(!*more, "a statement that gives rows was run for none: {}",
               sqlite3_sql(statement_.get()));
  return {};
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::string_view Statement::bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {static_cast<const char*>(bytes),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Database::Close::operator()(sqlite3* database) const {
  sqlite3_close_v2(database);
}

Result<Database> Database::open(const std::string& path, Access access) {
  const int flags = (access == Access::ReadOnly ? SQLITE_OPEN_READONLY
                                                : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                    SQLITE_OPEN_NOMUTEX;
  sqlite3* raw = nullptr;
  const int result = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database database(path, raw);
  if (result != SQLITE_OK) {
    if (raw == nullptr) return fail(Code::Io, fmt::format("{}: no memory to open it", path));
    return tl::unexpected(error_of(raw, path));
  }
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  // The header is read by the first statement only: a file of another kind must be found out here.
  TRY(database.user_version());
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                        &statement, nullptr);
  if (result != SQLITE_OK) return tl::unexpected(error_of(database_.get(), path_));
  return Statement(statement);
}

Result<> Database::execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return tl::unexpected(error_of(database_.get(), path_));
  }
  return {};
}

Result<std::int64_t> Database::user_version() {
  Statement statement = TRY(prepare("PRAGMA user_version"));
  TRY(statement.row());
  return statement.integer(0);
}

std::int64_t Database::last_row() const {
  return sqlite3_last_insert_rowid(database_.get());
}

std::int64_t Database::changes() const {
  return sqlite3_changes64(database_.get());
}

Result<> Database::backup(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0) {
    return fail(Code::Conflict,
                fmt::format("{} is there already; name a file that is not, or move it away", path));
  }
  Database copy = TRY(open(path, Access::ReadWrite));
  sqlite3* const to = copy.database_.get();
  sqlite3_backup* const backup = sqlite3_backup_init(to, "main", database_.get(), "main");
  if (backup == nullptr) return tl::unexpected(error_of(to, path));
  const int stepped = sqlite3_backup_step(backup, -1);
  const int finished = sqlite3_backup_finish(backup);
  if (stepped != SQLITE_DONE || finished != SQLITE_OK) return tl::unexpected(error_of(to, path));
  // A copy of one file: what is read from it later needs no second one beside it.
  return copy.execute("PRAGMA journal_mode=DELETE");
}

Result<Transaction> Transaction::begin(Database& database) {
  TRY_VOID(database.execute("BEGIN IMMEDIATE"));
  return Transaction(&database);
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
  if (database_ == nullptr) return;
  // Fails where SQLite has rolled back by itself, as it does when the disk is full: nothing to do
  // then.
  (void)database_->execute("ROLLBACK");
}

Result<> Transaction::commit() {
  LARES_ASSERT(database_ != nullptr, "a transaction is committed once");
  TRY_VOID(database_->execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace lares::store
