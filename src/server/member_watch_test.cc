#include "server/member_watch.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "store/key.h"

namespace lares::server {
namespace {

TEST(MemberWatch, NoticesWhatAnotherProcessWrites) {
  char pattern[] = "/tmp/lares-watch-XXXXXX";
  const std::string folder = ::mkdtemp(pattern);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<store::Member> seen;
  const auto wait_for = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [&] { return seen.size() == count; });
  };
  {
    auto writer = *store::MemberStore::open(folder);
    const MemberWatch watch(*store::MemberStore::open(folder), {}, std::chrono::milliseconds(1),
                            [&](const std::vector<store::Member>& members) {
                              const std::lock_guard lock(mutex);
                              seen = members;
                              changed.notify_all();
                            });
    for (const char* name : {"ana", "ben"}) {
      store::Member member;
      member.share.name = name;
      member.classes = {"chat"};
      member.key_hash = store::hash_key(name);
      ASSERT_TRUE(writer.add(member));
    }
    EXPECT_TRUE(wait_for(2));
    ASSERT_TRUE(writer.remove("ana"));
    EXPECT_TRUE(wait_for(1));
    const std::lock_guard lock(mutex);
    EXPECT_EQ(seen.at(0).share.name, "ben");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lares::server
