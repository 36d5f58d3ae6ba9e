#include "server/cost_book.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace lares::server {
namespace {

TEST(CostBook, KeepsTheLastTableOfEveryKey) {
  std::string folder = std::filesystem::temp_directory_path() / "lares-cost-book-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  {
    CostBook book(folder);
    EXPECT_TRUE(book.tables().empty());
    book.save("a-t2", "1:5,attended=0");
    book.save("b-t2", "1:7");
    book.save("a-t2", "1:6,attended=0");
  }
  const std::map<std::string, std::string> kept{{"a-t2", "1:6,attended=0"}, {"b-t2", "1:7"}};
  EXPECT_EQ(CostBook(folder).tables(), kept);
  std::filesystem::remove_all(folder);
}

TEST(CostBook, AFolderThatIsNotThereCostsOnlyTheMemory) {
  CostBook book("/nonexistent/folder");
  book.save("a", "1:5");
  EXPECT_EQ(book.tables().size(), 1U);
}

}  // namespace
}  // namespace lares::server
