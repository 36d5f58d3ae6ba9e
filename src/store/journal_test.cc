#include "store/journal.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/test_folder.h"
#include "store/key.h"

namespace lares::store {
namespace {

std::string fresh_folder() {
  static int number = 0;
  return test_file("journal" + std::to_string(++number));
}

NewJob new_job(std::string id, std::string key = "", std::string body = "{}") {
  NewJob job;
  job.id = std::move(id);
  job.member_id = MemberId{3};
  job.member = "ana";
  job.cls = "chat";
  job.kind = "/v1/chat/completions";
  job.idempotency_key = std::move(key);
  job.request_digest = digest(body);
  job.unix_ms = 1000;
  job.request = {
      .name = "", .media_type = "application/json", .status = 0, .bytes = std::move(body)};
  return job;
}

JobEnd end_as(JobState state, Duration device = std::chrono::milliseconds(40),
              std::string answer = "{\"ok\":true}") {
  JobEnd end;
  end.state = state;
  if (state != JobState::Done) end.error_code = "cancelled";
  end.result = Artefact{
      .name = "", .media_type = "application/json", .status = 200, .bytes = std::move(answer)};
  end.usage.outcome = state == JobState::Done     ? Outcome::Done
                      : state == JobState::Failed ? Outcome::Failed
                                                  : Outcome::Cancelled;
  end.usage.accepted_unix_ms = 1000;
  end.usage.device = device;
  end.unix_ms = 5000;
  return end;
}

// Every call in a transaction of its own.
class JournalTest : public ::testing::Test {
 protected:
  JournalTest() { open(); }

  template <class Work>
  auto in(const Work& work) {
    EXPECT_TRUE(journal_->begin());
    auto got = work(*journal_);
    EXPECT_TRUE(got) << got.error().message;
    EXPECT_TRUE(journal_->commit());
    return got;
  }
  void open() {
    journal_.reset();
    auto opened = Journal::open(folder_);
    ASSERT_TRUE(opened) << opened.error().message;
    journal_ = std::move(*opened);
    in([](Journal& j) { return j.begin_session(1000); });
  }
  std::int64_t add(const NewJob& job) {
    return in([&](Journal& j) { return j.add(job); })->seq;
  }
  std::vector<JobRecord> jobs(const JobFilter& filter = {}) {
    auto found = journal_->list(filter);
    EXPECT_TRUE(found);
    return std::move(*found);
  }
  // The device has computed for so long, and did nothing else.
  void computed(int ms) {
    const std::chrono::milliseconds busy(ms);
    in([&](Journal& j) { return j.save_totals({.wall = busy, .busy = busy}); });
  }
  void expect_exact() {
    const auto faults = journal_->check();
    ASSERT_TRUE(faults);
    EXPECT_TRUE(faults->empty()) << faults->front();
  }
  std::size_t blob_files() const {
    std::size_t count = 0;
    std::error_code error;
    for (auto at = std::filesystem::recursive_directory_iterator(folder_ + "/blobs", error);
         !error && at != std::filesystem::recursive_directory_iterator(); ++at) {
      if (at->is_regular_file()) ++count;
    }
    return count;
  }

  std::string folder_ = fresh_folder();
  std::unique_ptr<Journal> journal_;
};

TEST_F(JournalTest, AJobLivesFromItsRequestToItsResult) {
  const auto seq = add(new_job("job_a"));
  EXPECT_EQ(*in([&](Journal& j) { return j.begin_attempt(seq, 2000); }), 1U);
  in([&](Journal& j) { return j.end(seq, end_as(JobState::Done)); });
  computed(40);
  open();
  const auto job = **journal_->find("job_a");
  EXPECT_EQ(job.state, JobState::Done);
  EXPECT_EQ(job.attempts, 1U);
  EXPECT_EQ((*journal_->artefact(seq, kRequest))->bytes, "{}");
  EXPECT_EQ((*journal_->artefact(seq, kResult))->bytes, "{\"ok\":true}");
  const auto events = *journal_->events(seq, 0);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].name, "queued");
  EXPECT_EQ(events[2].name, "done");
  EXPECT_EQ(journal_->events(seq, 2)->size(), 1U);
  expect_exact();
}

TEST_F(JournalTest, WhatIsNotCommittedNeverWas) {
  ASSERT_TRUE(journal_->begin());
  ASSERT_TRUE(journal_->add(new_job("job_a", "", std::string(kInlineBytesMax + 1, 'x'))));
  EXPECT_EQ(blob_files(), 1U);
  journal_->roll_back();
  EXPECT_EQ(blob_files(), 0U);
  EXPECT_FALSE(journal_->find("job_a")->has_value());
  // As after a kill: the file is there, and no row.
  ASSERT_TRUE(journal_->begin());
  ASSERT_TRUE(journal_->add(new_job("job_a", "", std::string(kInlineBytesMax + 1, 'x'))));
  ASSERT_TRUE(journal_->database().execute("ROLLBACK"));
  EXPECT_EQ(blob_files(), 1U);
  journal_.reset();
  open();
  EXPECT_EQ(blob_files(), 0U);
}

TEST_F(JournalTest, AnEndIsWrittenWholeOrNotAtAll) {
  const auto seq = add(new_job("job_a"));
  in([&](Journal& j) { return j.begin_attempt(seq, 2000); });
  // The usage row is refused, as by a full disk: nothing of the end may stay.
  ASSERT_TRUE(journal_->database().execute(
      "CREATE TRIGGER no BEFORE INSERT ON usage BEGIN SELECT RAISE(ABORT, 'no'); END"));
  ASSERT_TRUE(journal_->begin());
  EXPECT_FALSE(journal_->end(seq, end_as(JobState::Done)));
  journal_->roll_back();
  EXPECT_EQ((*journal_->find("job_a"))->state, JobState::Running);
  EXPECT_FALSE(journal_->artefact(seq, kResult)->has_value());
  ASSERT_TRUE(journal_->database().execute("DROP TRIGGER no"));
  in([&](Journal& j) { return j.end(seq, end_as(JobState::Done)); });
  computed(40);
  expect_exact();
}

TEST_F(JournalTest, AKeyNamesOneJobOfItsMember) {
  add(new_job("job_a", "k"));
  EXPECT_EQ((*journal_->find_by_key(MemberId{3}, "k"))->id, "job_a");
  EXPECT_FALSE(journal_->find_by_key(MemberId{4}, "k")->has_value());
  ASSERT_TRUE(journal_->begin());
  const auto again = journal_->add(new_job("job_b", "k"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::Conflict);
  journal_->roll_back();
}

TEST_F(JournalTest, AfterACrashRunningJobsAreQueuedAgainInTheirOrder) {
  const auto a = add(new_job("job_a"));
  const auto b = add(new_job("job_b"));
  in([&](Journal& j) { return j.begin_attempt(b, 2000); });
  in([&](Journal& j) {
    return j.save_progress(b, {.seed = 7,
                               .parts = {{0, std::string("\0\1\2\3", 4)}},
                               .device = std::chrono::milliseconds(9),
                               .advanced = true});
  });
  in([&](Journal& j) {
    return j.save_totals({.wall = std::chrono::milliseconds(30),
                          .busy = std::chrono::milliseconds(10),
                          .idle = std::chrono::milliseconds(20),
                          .open = std::chrono::milliseconds(10)});
  });
  open();
  const auto open_jobs = *in([](Journal& j) { return j.recover(3000); });
  ASSERT_EQ(open_jobs.size(), 2U);
  EXPECT_EQ(open_jobs[0].seq, a);
  EXPECT_EQ(open_jobs[1].state, JobState::Queued);
  EXPECT_EQ(open_jobs[1].tries, 0U) << "it got further";
  EXPECT_EQ(open_jobs[1].seed, 7U);
  EXPECT_EQ(journal_->checkpoints(b)->at(0).bytes, std::string("\0\1\2\3", 4));
  EXPECT_EQ(*in([&](Journal& j) { return j.begin_attempt(b, 4000); }), 2U);
  in([&](Journal& j) { return j.end(b, end_as(JobState::Done, std::chrono::milliseconds(5))); });
  in([&](Journal& j) {
    return j.save_totals(
        {.wall = std::chrono::milliseconds(5), .busy = std::chrono::milliseconds(5)});
  });
  EXPECT_TRUE(journal_->checkpoints(b)->empty());
  expect_exact();
  EXPECT_EQ(journal_->times()->of_members, std::chrono::milliseconds(14)) << "both attempts";
}

TEST_F(JournalTest, AttemptsThatBringNothingAreCounted) {
  const auto seq = add(new_job("job_a"));
  for (std::uint32_t i = 1; i <= 3; ++i) {
    in([&](Journal& j) { return j.begin_attempt(seq, 2000); });
    in([&](Journal& j) {
      return j.end_attempt(seq, "the worker died", Duration(0), Journal::Tries::Count, 3000);
    });
    EXPECT_EQ((*journal_->find("job_a"))->tries, i);
  }
  in([&](Journal& j) { return j.begin_attempt(seq, 2000); });
  in([&](Journal& j) {
    return j.end_attempt(seq, "the server stopped", Duration(0), Journal::Tries::Forgive, 3000);
  });
  EXPECT_EQ((*journal_->find("job_a"))->tries, 3U);
  EXPECT_EQ(journal_->attempts(seq)->at(0).reason, "the worker died");
}

TEST_F(JournalTest, ARetriedJobKeepsOneUsageRow) {
  const auto seq = add(new_job("job_a"));
  in([&](Journal& j) { return j.begin_attempt(seq, 2000); });
  in([&](Journal& j) { return j.end(seq, end_as(JobState::Cancelled)); });
  in([&](Journal& j) { return j.end(seq, end_as(JobState::Done)); });  // Too late.
  EXPECT_EQ((*journal_->find("job_a"))->state, JobState::Cancelled);
  in([&](Journal& j) { return j.reopen(seq, 6000); });
  computed(40);
  expect_exact();
  in([&](Journal& j) { return j.begin_attempt(seq, 7000); });
  in([&](Journal& j) { return j.end(seq, end_as(JobState::Done)); });
  computed(80);
  expect_exact();
  EXPECT_EQ(journal_->times()->of_members, std::chrono::milliseconds(80));
  ASSERT_TRUE(journal_->begin());
  EXPECT_EQ(journal_->reopen(seq, 8000).error().code, Code::Conflict) << "it is done";
  journal_->roll_back();
}

TEST_F(JournalTest, TheCheckFindsWhatIsWrong) {
  const auto seq = add(new_job("job_a"));
  in([&](Journal& j) { return j.begin_attempt(seq, 2000); });
  in([&](Journal& j) { return j.end(seq, end_as(JobState::Done)); });
  computed(40);
  expect_exact();
  const auto faults_after = [&](const std::string& damage) {
    EXPECT_TRUE(journal_->database().execute("SAVEPOINT whole; " + damage));
    const auto found = *journal_->check();
    EXPECT_TRUE(journal_->database().execute("ROLLBACK TO whole; RELEASE whole"));
    return found.size();
  };
  EXPECT_EQ(faults_after("DELETE FROM usage"), 1U);
  EXPECT_EQ(faults_after("UPDATE usage SET job_id = 'job_x'"), 2U);
  EXPECT_EQ(faults_after("UPDATE usage SET device_ns = device_ns + 1"), 1U);
  EXPECT_EQ(faults_after("UPDATE usage SET outcome = 'failed'"), 1U);
  EXPECT_EQ(faults_after("UPDATE session SET busy_ns = 1000000000, wall_ns = 1000000000"), 1U);
  EXPECT_EQ(faults_after("UPDATE session SET wall_ns = 1000000000"), 1U);
  expect_exact();
}

TEST_F(JournalTest, EqualBlobsAreOneFileUntilNobodyNamesThem) {
  const std::string large(kInlineBytesMax + 1, 'b');
  const auto a = add(new_job("job_a", "", large));
  add(new_job("job_b", "", large));
  EXPECT_EQ(blob_files(), 1U);
  EXPECT_EQ((*journal_->artefact(a, kRequest))->bytes, large);
  for (const auto& job : jobs()) {
    in([&](Journal& j) { return j.end(job.seq, end_as(JobState::Done)); });
  }
  in([&](Journal& j) { return j.retain({.keep = std::chrono::seconds(60)}, 5000 + 60'001); });
  EXPECT_EQ(blob_files(), 0U);
  EXPECT_EQ(**journal_->find_expired("job_b"), MemberId{3});
  EXPECT_FALSE(journal_->find_expired("job_c")->has_value());
  expect_exact();
}

TEST_F(JournalTest, ADamagedBlobIsAnErrorAndNotAnAnswer) {
  const auto seq = add(new_job("job_a", "", std::string(kInlineBytesMax + 1, 'b')));
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_ + "/blobs")) {
    if (file.is_regular_file()) std::fstream(file.path(), std::ios::in | std::ios::out) << "X";
  }
  const auto read = journal_->artefact(seq, kRequest);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::Corrupt);
}

TEST_F(JournalTest, PicturesGoBeforeLatentsAndLatentsBeforeRecords) {
  const auto old = add(new_job("job_old"));
  const auto recent = add(new_job("job_new"));
  const std::string bytes(1000, 'p');
  const auto put = [&](std::int64_t seq, std::string_view name, std::string_view type) {
    in([&](Journal& j) {
      return j.put_artefact(seq, {std::string(name), std::string(type), 0, bytes});
    });
  };
  put(old, "latent", kLatentType);
  put(recent, "picture", "image/png");
  for (const auto seq : {old, recent}) {
    in([&](Journal& j) { return j.end(seq, end_as(JobState::Done)); });
  }
  const auto left = [&](std::int64_t limit) {
    in([&](Journal& j) { return j.retain({.bytes_max = Bytes{limit}}, 6000); });
    std::string out;
    if ((*journal_->artefact(recent, "picture")).has_value()) out += "picture ";
    if ((*journal_->artefact(old, "latent")).has_value()) out += "latent ";
    for (const auto& job : jobs()) out += job.id + " ";
    return out;
  };
  EXPECT_EQ(left(1 << 20), "picture latent job_new job_old ");
  EXPECT_EQ(left(1500), "latent job_new job_old ");
  EXPECT_EQ(left(500), "job_new job_old ");
  EXPECT_EQ(left(20), "job_new ");
  EXPECT_EQ(left(0), "");
}

TEST_F(JournalTest, ListsAreFilteredAndPaged) {
  for (const char* id : {"job_a", "job_b", "job_c"}) add(new_job(id));
  NewJob other = new_job("job_d");
  other.member_id = MemberId{4};
  add(other);
  auto page = jobs({.member = MemberId{3}, .limit = 2});
  ASSERT_EQ(page.size(), 2U);
  EXPECT_EQ(page[0].id, "job_c");
  page = jobs({.member = MemberId{3}, .before = page[1].seq});
  ASSERT_EQ(page.size(), 1U);
  EXPECT_EQ(page[0].id, "job_a");
  EXPECT_TRUE(jobs({.state = JobState::Done}).empty());
  EXPECT_TRUE(jobs({.cls = "voice"}).empty());
}

TEST_F(JournalTest, ABackupIsAWholeDatabase) {
  const auto seq = add(new_job("job_a"));
  in([&](Journal& j) { return j.end(seq, end_as(JobState::Done)); });
  const std::string copy = fresh_folder();
  std::filesystem::create_directory(copy);
  ASSERT_TRUE(journal_->database().backup(copy + "/lares.db"));
  EXPECT_EQ(journal_->database().backup(copy + "/lares.db").error().code, Code::Conflict);
  add(new_job("job_later"));
  const auto restored = Journal::open_existing(copy);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ((*restored)->list({})->size(), 1U);
  EXPECT_TRUE((*restored)->check()->empty());
}

// What list() asks, for each way to filter: none walks the whole history, none sorts it.
TEST_F(JournalTest, ListsWalkAnIndex) {
  for (const auto& [where, index] : std::vector<std::pair<std::string, std::string>>{
           {"member_id = 1", "job_member "},
           {"state = 'running'", "job_state "},
           {"class = 'voice'", "job_class "},
           {"member_id = 1 AND state = 'running'", "job_member_state "},
           {"member_id = 1 AND class = 'voice'", "job_member_class "}}) {
    auto query =
        journal_->database().prepare("EXPLAIN QUERY PLAN SELECT * FROM job WHERE seq < 9 AND " +
                                     where + " ORDER BY seq DESC LIMIT 50");
    ASSERT_TRUE(query) << query.error().message;
    std::string plan;
    while (*query->row()) plan += std::string(query->text(3)) + "\n";
    EXPECT_NE(plan.find("SEARCH job USING INDEX " + index), std::string::npos) << plan;
    EXPECT_EQ(plan.find("TEMP B-TREE"), std::string::npos) << plan;
  }
}

}  // namespace
}  // namespace lares::store
