#include "app/model_command.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "app/model_files.h"
#include "app/model_folder.h"

namespace lares::app {
namespace {

namespace fs = std::filesystem;

int run(std::vector<std::string> words) {
  return run_model_command(words, "/no/such/program");
}

ModelRow row() {
  ModelRow out;
  out.name = "tiny";
  out.architecture = "qwen3";
  out.bytes = 6 << 20;
  out.context = 2048;
  out.generates = true;
  out.state = "ready";
  return out;
}

TEST(ModelTable, SaysWhatMatters) {
  ModelRow broken;
  broken.name = "broken";
  broken.error = "truncated";
  broken.cut_anywhere = false;
  EXPECT_EQ(model_table({row(), broken}),
            "name       size  context  makes    reuse  state\n"
            "tiny    6.0 MiB     2048  text     yes    loaded\n"
            "broken      0 B        0  nothing  no     failed: truncated\n");
  EXPECT_EQ(model_table({}), "no models; `lares model add FILE` adds one\n");
}

TEST(ModelJson, ComesBack) {
  EXPECT_EQ(model_json(row()),
            R"({"name":"tiny","size_bytes":6291456,"context":2048,"architecture":"qwen3",)"
            R"("parameters":0,"generates":true,"embeds":false,"cut_anywhere":true,)"
            R"("state":"ready"})");
  const auto rows = read_models(
      R"({"data":[{"id":"tiny","state":"ready","architecture":"qwen3","context_length":2048,)"
      R"("size_bytes":6291456,"generates":true,"cut_anywhere":false}]})");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->at(0).context, 2048U);
  EXPECT_FALSE(rows->at(0).cut_anywhere);
  EXPECT_FALSE(read_models("{}"));
  EXPECT_FALSE(read_models("no"));
}

TEST(ModelCommand, WrongArguments) {
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"lst"}), 2);
  EXPECT_EQ(run({"list", "x"}), 2);
  EXPECT_EQ(run({"add"}), 2);
  EXPECT_EQ(run({"add", "x.bin"}), 2);
  EXPECT_EQ(run({"add", "x.gguf", "--name", "a/b"}), 2);
  EXPECT_EQ(run({"list", "--jsn"}), 2);
  EXPECT_EQ(run({"list", "--server", "nowhere"}), 2);
  EXPECT_EQ(run({"list", "--models", "/no/such/folder"}), 1);
  EXPECT_EQ(run({"remove", "x", "--models", "/no/such/folder"}), 1);
  EXPECT_EQ(run({"--help"}), 0);
}

class ModelFiles : public ::testing::Test {
 protected:
  ModelFiles() {
    char pattern[] = "/tmp/lares-files-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    for (const char* name : {"one.gguf", "big-00001-of-00002.gguf", "big-00002-of-00002.gguf"}) {
      std::ofstream(folder_ + "/" + name) << name;
    }
  }
  ~ModelFiles() override { fs::remove_all(folder_); }
  [[nodiscard]] std::size_t count() const {
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& file : fs::directory_iterator(folder_ + "/to")) ++files;
    return files;
  }

  std::string folder_;
};

TEST_F(ModelFiles, ComeAndGoWithAllTheirParts) {
  const std::string to = folder_ + "/to";
  EXPECT_EQ(*add_model_files(folder_ + "/one.gguf", to, "", AddHow::LinkOrCopy), to + "/one.gguf");
  EXPECT_EQ(add_model_files(folder_ + "/one.gguf", to, "", AddHow::LinkOrCopy).error().code,
            Code::Conflict);
  EXPECT_EQ(*add_model_files(folder_ + "/one.gguf", to, "two", AddHow::Symlink), to + "/two.gguf");
  EXPECT_TRUE(fs::is_symlink(to + "/two.gguf"));
  const auto split =
      add_model_files(folder_ + "/big-00001-of-00002.gguf", to, "huge", AddHow::LinkOrCopy);
  ASSERT_TRUE(split) << split.error().message;
  EXPECT_EQ(*split, to + "/huge-00001-of-00002.gguf");
  EXPECT_EQ(count(), 4U);
  EXPECT_EQ(find_models(to)->size(), 3U);
  ASSERT_TRUE(remove_model_files(*split));
  EXPECT_EQ(count(), 2U);
  EXPECT_TRUE(fs::exists(folder_ + "/big-00002-of-00002.gguf")) << "only the folder's own";
}

TEST_F(ModelFiles, APartThatIsMissingLeavesNothing) {
  fs::remove(folder_ + "/big-00002-of-00002.gguf");
  const auto split = add_model_files(folder_ + "/big-00001-of-00002.gguf", folder_ + "/to", "",
                                     AddHow::LinkOrCopy);
  ASSERT_FALSE(split);
  EXPECT_NE(split.error().message.find("big-00002-of-00002.gguf"), std::string::npos);
  EXPECT_EQ(count(), 0U);
}

TEST(ModelParts, OfASplitModel) {
  EXPECT_EQ(model_parts("a/m.gguf"), (std::vector<std::string>{"a/m.gguf"}));
  EXPECT_EQ(model_parts("a/m-00001-of-00003.gguf"),
            (std::vector<std::string>{"a/m-00001-of-00003.gguf", "a/m-00002-of-00003.gguf",
                                      "a/m-00003-of-00003.gguf"}));
}

}  // namespace
}  // namespace lares::app
