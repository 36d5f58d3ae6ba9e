#include "store/folder_lock.h"

#include <unistd.h>

#include <optional>

#include <gtest/gtest.h>

#include "core/test_folder.h"

namespace lares::store {
namespace {

TEST(FolderLock, TheSecondIsToldWhoHasIt) {
  const std::string folder = test_file("locked");
  std::optional<Result<FolderLock>> first(FolderLock::take(folder));
  ASSERT_TRUE(*first);
  const auto second = FolderLock::take(folder);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::Conflict);
  EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
  EXPECT_FALSE(server_of(folder)) << "it has not said where";
  ASSERT_TRUE((*first)->announce("http://127.0.0.1:8080"));
  EXPECT_EQ(server_of(folder), "http://127.0.0.1:8080");
  first.reset();
  EXPECT_FALSE(server_of(folder));
  EXPECT_TRUE(FolderLock::take(folder));
}

TEST(FolderLock, AFolderThatCannotBeIsNamed) {
  const auto taken = FolderLock::take("/dev/null/folder");
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Code::Io);
  EXPECT_NE(taken.error().message.find("/dev/null/folder"), std::string::npos);
}

}  // namespace
}  // namespace lares::store
