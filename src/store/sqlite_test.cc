#include "store/sqlite.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace lares::store {
namespace {

class SqliteTest : public ::testing::Test {
 protected:
  SqliteTest() {
    char pattern[] = "/tmp/lares-sqlite-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    path_ = folder_ + "/test.db";
  }
  ~SqliteTest() override { std::filesystem::remove_all(folder_); }

  Result<std::int64_t> count(Database& database) {
    Statement query = TRY(database.prepare("SELECT count(*) FROM t"));
    TRY(query.row());
    return query.integer(0);
  }

  std::string folder_, path_;
};

TEST_F(SqliteTest, BindsAndReadsBack) {
  Database db = *Database::open(path_, Access::ReadWrite);
  ASSERT_TRUE(db.execute("CREATE TABLE t (a INTEGER, b TEXT, c REAL) STRICT"));
  Statement insert = *db.prepare("INSERT INTO t VALUES (?, ?, ?)");
  insert.bind(-5);
  insert.bind(std::string_view("a\0\xc3\xa9", 4));
  insert.bind_null();
  ASSERT_TRUE(insert.run());
  Statement query = *db.prepare("SELECT a, b, c, a / 2.0 FROM t");
  ASSERT_TRUE(*query.row());
  EXPECT_EQ(query.integer(0), -5);
  EXPECT_EQ(query.text(1), std::string_view("a\0\xc3\xa9", 4));
  EXPECT_EQ(query.text(2), "");
  EXPECT_EQ(query.real(3), -2.5);
  EXPECT_FALSE(*query.row());
}

TEST_F(SqliteTest, ATransactionThatIsNotCommittedLeavesNothing) {
  Database db = *Database::open(path_, Access::ReadWrite);
  ASSERT_TRUE(db.execute("CREATE TABLE t (a INTEGER) STRICT"));
  {
    const Transaction transaction = *Transaction::begin(db);
    ASSERT_TRUE(db.execute("INSERT INTO t VALUES (1)"));
  }
  EXPECT_EQ(*count(db), 0);
  {
    Transaction transaction = *Transaction::begin(db);
    ASSERT_TRUE(db.execute("INSERT INTO t VALUES (1)"));
    ASSERT_TRUE(transaction.commit());
  }
  EXPECT_EQ(*count(db), 1);
}

TEST_F(SqliteTest, ErrorsNameTheFileAndTheReason) {
  Database db = *Database::open(path_, Access::ReadWrite);
  const auto bad = db.prepare("SELECT nonsense FROM nowhere");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find(path_), std::string::npos) << bad.error().message;
  EXPECT_NE(bad.error().message.find("nowhere"), std::string::npos);
  ASSERT_TRUE(db.execute("CREATE TABLE t (a INTEGER NOT NULL) STRICT"));
  EXPECT_EQ(db.execute("INSERT INTO t VALUES (NULL)").error().code, Code::Invalid);
}

TEST_F(SqliteTest, OpeningWhatCannotBe) {
  EXPECT_EQ(Database::open(folder_ + "/absent.db", Access::ReadOnly).error().code, Code::Io);
  std::ofstream(path_) << std::string(5000, 'x');
  EXPECT_EQ(Database::open(path_, Access::ReadWrite).error().code, Code::Corrupt);
}

TEST_F(SqliteTest, AReadOnlyDatabaseRefusesWrites) {
  ASSERT_TRUE(
      Database::open(path_, Access::ReadWrite)->execute("CREATE TABLE t (a INTEGER) STRICT"));
  Database db = *Database::open(path_, Access::ReadOnly);
  const auto wrote = db.execute("INSERT INTO t VALUES (1)");
  ASSERT_FALSE(wrote);
  EXPECT_EQ(wrote.error().code, Code::Io);
  EXPECT_NE(wrote.error().message.find("cannot be written"), std::string::npos);
}

// SQLite's own limit on pages gives the same answer as a disk that is full.
TEST_F(SqliteTest, AFullDiskSaysSoAndNothingIsHalfWritten) {
  Database db = *Database::open(path_, Access::ReadWrite);
  ASSERT_TRUE(db.execute("PRAGMA max_page_count=4; CREATE TABLE t (a TEXT) STRICT"));
  Result<> wrote;
  {
    Transaction transaction = *Transaction::begin(db);
    ASSERT_TRUE(db.execute("INSERT INTO t VALUES ('small')"));
    wrote = db.execute("INSERT INTO t VALUES (hex(zeroblob(100000)))");
  }
  ASSERT_FALSE(wrote);
  EXPECT_EQ(wrote.error().code, Code::Io);
  EXPECT_NE(wrote.error().message.find("the disk is full"), std::string::npos);
  EXPECT_EQ(*count(db), 0);
}

}  // namespace
}  // namespace lares::store
