#include "server/job_results.h"

#include <gtest/gtest.h>

#include "core/test_folder.h"

namespace lares::server {
namespace {

store::Artefact file(std::uint32_t index, std::string bytes) {
  return {.name = store::result_file_name(index),
          .media_type = "image/png",
          .status = 0,
          .bytes = std::move(bytes)};
}

TEST(JobResults, FilesStandWhereTheirMarksAre) {
  const std::vector<store::Artefact> files{file(0, "abc"), file(1, "")};
  const std::string kept = "[\"" + file_mark(0) + "\",\"" + file_mark(1) + "\",\"" + file_mark(0);
  EXPECT_EQ(with_files(kept, files), "[\"YWJj\",\"\",\"YWJj");
  EXPECT_EQ(with_files("plain", {}), "plain");
  EXPECT_EQ(with_files(file_mark(2), files), std::nullopt);
  EXPECT_EQ(with_files("\x01"
                       "0",
                       files),
            std::nullopt);
  EXPECT_EQ(with_files("\x01x\x01", files), std::nullopt);
}

TEST(JobResults, TypesCountTheirFiles) {
  const AnswerType type = split_type(type_with_files("application/json", 3));
  EXPECT_EQ(type.type, "application/json");
  EXPECT_EQ(type.files, 3U);
  EXPECT_EQ(type_with_files("text/plain; charset=utf-8", 0), "text/plain; charset=utf-8");
  EXPECT_EQ(split_type("text/plain; charset=utf-8").type, "text/plain; charset=utf-8");
  EXPECT_EQ(split_type("a;files=x").type, "a;files=x");
}

class Kept : public ::testing::Test {
 protected:
  Kept()
      : journal_(std::move(*store::Journal::open(
            test_file(::testing::UnitTest::GetInstance()->current_test_info()->name())))) {
    EXPECT_TRUE(journal_->begin());
    store::NewJob job;
    job.id = "job_a";
    job.kind = "/v1/images/generations";
    seq_ = journal_->add(job)->seq;
    EXPECT_TRUE(journal_->begin_attempt(seq_, 1));
    store::JobEnd end;
    end.unix_ms = 10;
    end.result = {.name = "",
                  .media_type = type_with_files("application/json", 1),
                  .status = 200,
                  .bytes = "{\"b64\":\"" + file_mark(0) + "\"}"};
    end.files.push_back(file(0, std::string(100'000, 'p')));
    EXPECT_TRUE(journal_->end(seq_, end));
    EXPECT_TRUE(journal_->commit());
  }

  std::unique_ptr<store::Journal> journal_;
  std::int64_t seq_ = 0;
};

TEST_F(Kept, AnAnswerIsReadWithItsPicture) {
  const auto answer = read_answer(*journal_, seq_);
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ((*answer)->media_type, "application/json");
  EXPECT_EQ((*answer)->status, 200);
  EXPECT_EQ((*answer)->bytes.size(), 10U + (100'000U + 2) / 3 * 4);
  const auto heads = journal_->artefacts(seq_);
  ASSERT_EQ(heads->size(), 3U);
  EXPECT_EQ((*heads)[2].name, "result/0");
  EXPECT_EQ((*heads)[2].size, 100'000U);
}

TEST_F(Kept, PicturesGoFirstAndTheirAnswerWithThem) {
  ASSERT_TRUE(journal_->begin());
  store::Retention limits;
  limits.keep = std::chrono::hours(1);
  limits.bytes_max = Bytes{50'000};
  EXPECT_EQ(*journal_->retain(limits, 20), 1U);
  ASSERT_TRUE(journal_->commit());
  EXPECT_TRUE(journal_->find("job_a")->has_value());
  EXPECT_FALSE(read_answer(*journal_, seq_)->has_value());
}

}  // namespace
}  // namespace lares::server
