// A data folder's database with some of its bytes changed: opened, it is refused or used, and never
// takes the server down.
#include <fstream>

#include <gtest/gtest.h>

#include "core/test_folder.h"
#include "mutator.h"
#include "store/journal.h"
#include "store/members.h"
#include "store/usage.h"

namespace lares::fuzz {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A journal with jobs in each state, closed.
std::string sound_database(const std::string& folder) {
  {
    auto journal = store::Journal::open(folder);
    EXPECT_TRUE(journal) << journal.error().message;
    EXPECT_TRUE((*journal)->begin());
    EXPECT_TRUE((*journal)->begin_session(1));
    for (int i = 0; i < 20; ++i) {
      store::NewJob job;
      job.id = "job_" + std::to_string(i);
      job.member_id = MemberId{1};
      job.member = "ana";
      job.cls = "chat";
      job.kind = "/v1/chat/completions";
      job.request.name = "request";
      job.request.media_type = "application/json";
      job.request.bytes = std::string(200, 'x');
      EXPECT_TRUE((*journal)->add(job));
    }
    EXPECT_TRUE((*journal)->commit());
  }
  return file_text(folder + "/lares.db");
}

TEST(JournalFuzz, DamagedDatabasesAreRefusedOrUsed) {
  const std::string folder = test_file("journal_fuzz");
  std::filesystem::create_directory(folder);
  const std::string sound = sound_database(folder);
  ASSERT_GT(sound.size(), 10000U);
  std::mt19937_64 random(7);
  int opened = 0, listed = 0;
  constexpr int kRounds = 150;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    std::string bytes = sound;
    for (std::uint64_t i = 1 + random() % 20; i > 0; --i)
      bytes[random() % (round % 3 == 0 ? 200 : bytes.size())] = static_cast<char>(random());
    if (round % 5 == 0) bytes.resize(random() % bytes.size());
    for (const char* more : {"-wal", "-shm"}) std::filesystem::remove(folder + "/lares.db" + more);
    std::ofstream(folder + "/lares.db", std::ios::binary | std::ios::trunc) << bytes;
    auto journal = store::Journal::open(folder);
    if (!journal) {
      EXPECT_FALSE(journal.error().message.empty());
      continue;
    }
    ++opened;
    const auto jobs = (*journal)->list({});
    listed += jobs ? 1 : 0;
    if ((*journal)->begin()) {
      const auto recovered = (*journal)->recover(2);
      if (recovered) {
        (void)(*journal)->commit();
      } else {
        (*journal)->roll_back();
      }
    }
  }
  // Were nearly all refused, or none, nothing would be tested.
  EXPECT_GT(opened, kRounds / 10);
  EXPECT_LT(listed, kRounds);
}

}  // namespace
}  // namespace lares::fuzz
