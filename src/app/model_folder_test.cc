#include "app/model_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace lares::app {
namespace {

namespace fs = std::filesystem;

class ModelFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("lares_models_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void file(const std::string& path, std::size_t bytes) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << std::string(bytes, 'x');
  }
  std::map<std::string, std::string> names() {
    std::map<std::string, std::string> out;
    const auto found = find_models(folder_.string());
    for (const FoundModel& m : *found) {
      out[m.name] = fs::relative(m.path, folder_).string();
    }
    return out;
  }

  fs::path folder_;
};

TEST_F(ModelFolder, NamesModelsWithoutTheirQuantisation) {
  file("chat/starter-chat-q8_0.gguf", 10);
  file("qwen2.5-7b-instruct-Q4_K_M.gguf", 10);
  file("plain.gguf", 10);
  file("notes.txt", 10);
  EXPECT_EQ(names(), (std::map<std::string, std::string>{
                         {"starter-chat", "chat/starter-chat-q8_0.gguf"},
                         {"qwen2.5-7b-instruct", "qwen2.5-7b-instruct-Q4_K_M.gguf"},
                         {"plain", "plain.gguf"}}));
}

TEST_F(ModelFolder, TheSmallestOfSeveralHasTheShortName) {
  file("m-f16.gguf", 30);
  file("m-q8_0.gguf", 20);
  EXPECT_EQ(names(),
            (std::map<std::string, std::string>{{"m", "m-q8_0.gguf"}, {"m-f16", "m-f16.gguf"}}));
}

TEST_F(ModelFolder, ASplitModelIsOne) {
  file("big-q4_0-00001-of-00002.gguf", 10);
  file("big-q4_0-00002-of-00002.gguf", 10);
  EXPECT_EQ(names(), (std::map<std::string, std::string>{{"big", "big-q4_0-00001-of-00002.gguf"}}));
}

TEST_F(ModelFolder, LinksToFoldersAreFollowedOnce) {
  file("near.gguf", 10);
  file("elsewhere/deep/far-q8_0.gguf", 10);
  fs::create_directory_symlink(folder_ / "elsewhere" / "deep", folder_ / "a-link");
  fs::create_directory_symlink(folder_ / "elsewhere" / "deep", folder_ / "b-link");
  fs::create_directory_symlink(folder_, folder_ / "itself");
  fs::create_symlink("nowhere", folder_ / "dangling");
  EXPECT_EQ(names(), (std::map<std::string, std::string>{{"far", "elsewhere/deep/far-q8_0.gguf"},
                                                         {"near", "near.gguf"}}));
  const auto found = find_models(folder_.string());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->at(0).path, (folder_ / "a-link/far-q8_0.gguf").string());
}

TEST_F(ModelFolder, AFolderThatIsNotThereSaysWhatToDo) {
  const auto found = find_models((folder_ / "nowhere").string());
  ASSERT_FALSE(found.has_value());
  EXPECT_NE(found.error().message.find("--models"), std::string::npos);
}

}  // namespace
}  // namespace lares::app
