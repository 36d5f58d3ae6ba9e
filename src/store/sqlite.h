// SQLite, wrapped once: Database, Statement, Transaction, with Result everywhere.
//
// After workerd's util/sqlite.h. A Database is used by one thread at a time; each thread that needs
// the file opens its own (WAL: readers do not wait for the writer). A Statement must not outlive
// its Database. sqlite3.h is included by sqlite.cc alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lares::store {

enum class Access : std::uint8_t { ReadWrite, ReadOnly };

// A prepared statement. Values are bound in order, then rows are stepped through:
//   stmt.reset(); stmt.bind("home"); stmt.bind(42); while (TRY(stmt.row())) { stmt.text(0); ... }
class Statement {
 public:
  Statement(Statement&&) noexcept = default;
  Statement& operator=(Statement&&) noexcept = default;

  // Ready for another execution; the next bind is the first parameter.
  void reset();
  void bind(std::int64_t value);
  void bind(std::string_view value);
  void bind_bytes(std::string_view value);  // For a BLOB column.
  void bind_null();

  // Runs until the next row: false when there is none. Errors: as Database::error.
  Result<bool> row();
  // Runs a statement that gives no rows, and resets it.
  Result<> run();

  // Of the current row. Text lives until the next row() or reset().
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string_view text(int column) const;
  [[nodiscard]] std::string_view bytes(int column) const;
  [[nodiscard]] bool is_null(int column) const;

 private:
  friend class Database;
  struct Finalise {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  std::unique_ptr<sqlite3_stmt, Finalise> statement_;
  int next_ = 1;
};

class Database {
 public:
  // Opens, or creates when ReadWrite, the file. Errors: Io with the path and the system's reason,
  // Corrupt.
  static Result<Database> open(const std::string& path, Access access);

  Result<Statement> prepare(std::string_view sql);
  // One or more statements without parameters and rows.
  Result<> execute(const std::string& sql);
  Result<std::int64_t> user_version();
  // Of the last INSERT. And how many rows the last statement changed.
  [[nodiscard]] std::int64_t last_row() const;
  [[nodiscard]] std::int64_t changes() const;
  // Copies the whole, as it is at one moment, into a new file; writers go on meanwhile. Errors:
  // Conflict (the file is there already), and as open().
  Result<> backup(const std::string& path);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  Database(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}

  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
};

// Rolls back unless committed. Takes the write lock at once, so that a busy file is seen here and
// not in the middle.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Result<> commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}

  Database* database_;  // Null once over.
};

}  // namespace lares::store
