#include "app/served_models.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace lares::app {
namespace {

namespace fs = std::filesystem;
using server::ModelEntry;

ModelEntry entry(std::string name, std::uint64_t stamp) {
  return {.name = name, .path = name + ".gguf", .stamp = stamp};
}

TEST(SettledModels, AFileIsTakenOnceItHasStoppedChanging) {
  const ModelEntry a = entry("a", 1);
  const std::vector<ModelEntry> none;
  EXPECT_EQ(settled_models({a}, {a}, {a, entry("b", 1)}), (std::vector{a})) << "just seen";
  EXPECT_EQ(settled_models({a}, {a, entry("b", 1)}, {a, entry("b", 2)}), (std::vector{a}))
      << "growing";
  EXPECT_EQ(settled_models({a}, {a, entry("b", 2)}, {a, entry("b", 2)}),
            (std::vector{a, entry("b", 2)}));
  EXPECT_EQ(settled_models({a}, {a}, none), none) << "gone at once";
  EXPECT_EQ(settled_models({a}, {a}, {entry("a", 2)}), (std::vector{a})) << "being replaced";
  EXPECT_EQ(settled_models({a}, {entry("a", 2)}, {entry("a", 2)}), (std::vector{entry("a", 2)}));
}

TEST(ModelWatch, CallsOnceForAChange) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<ModelEntry> found{entry("a", 1)};
  std::vector<std::vector<ModelEntry>> calls;
  const auto wait_for = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [&] { return calls.size() == count; });
  };
  const auto put = [&](std::vector<ModelEntry> models) {
    const std::lock_guard lock(mutex);
    found = std::move(models);
  };
  const ModelWatch watch(
      [&]() -> Result<std::vector<ModelEntry>> {
        const std::lock_guard lock(mutex);
        if (found.empty()) return fail(Code::Io, "unreadable");
        return found;
      },
      found, std::chrono::milliseconds(1),
      [&](const std::vector<ModelEntry>& models) {
        const std::lock_guard lock(mutex);
        calls.push_back(models);
        changed.notify_all();
      });
  put({entry("a", 1), entry("b", 1)});
  EXPECT_TRUE(wait_for(1));
  put({});
  put({entry("b", 1)});
  EXPECT_TRUE(wait_for(2));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(calls.at(0).size(), 2U);
  EXPECT_EQ(calls.at(1), (std::vector{entry("b", 1)}));
}

TEST(ServedModels, AnotherFileHasAnotherStamp) {
  char pattern[] = "/tmp/lares-served-XXXXXX";
  Config config = default_config();
  config.models_folder = ::mkdtemp(pattern);
  EXPECT_EQ(served_models(config).error().code, Code::NotFound);
  const std::string path = config.models_folder + "/m-00002-of-00002.gguf";
  std::ofstream(config.models_folder + "/m-00001-of-00002.gguf") << "one";
  const std::uint64_t half = served_models(config)->at(0).stamp;
  std::ofstream(path) << "two";
  const std::uint64_t whole = served_models(config)->at(0).stamp;
  EXPECT_NE(half, whole) << "a later part counts too";
  EXPECT_EQ(served_models(config)->at(0).stamp, whole);
  std::ofstream(path) << "three";
  EXPECT_NE(served_models(config)->at(0).stamp, whole);
  fs::remove_all(config.models_folder);
}

}  // namespace
}  // namespace lares::app
