#include "server/jobs.h"

#include <condition_variable>
#include <deque>

#include <gtest/gtest.h>

#include "core/test_folder.h"

namespace lares::server {
namespace {

using store::JobState;

// Whom nothing is asked of but to cancel.
class NoService final : public Service {
 public:
  JobId submit(Generation, std::shared_ptr<GenerationSink>) override { return {}; }
  bool cancel(JobId job) override {
    cancelled = job;
    return true;
  }
  [[nodiscard]] std::vector<ModelStatus> models() const override { return {}; }
  [[nodiscard]] ServiceStatus status() const override { return {}; }
  JobId cancelled{};
};

HttpResponse answer_of(int status, std::string body) {
  HttpResponse answer;
  answer.status = status;
  answer.body = std::move(body);
  return answer;
}

class JobsTest : public ::testing::Test {
 protected:
  JobsTest() { start(); }
  ~JobsTest() override { stop(); }

  void start() {
    auto journal = std::move(*store::Journal::open(folder_));
    EXPECT_TRUE(journal->begin());
    const auto open = *journal->recover(++ms_);
    EXPECT_TRUE(journal->begin_session(ms_));
    EXPECT_TRUE(journal->commit());
    database_ = &journal->database();
    JobsOptions options;
    options.now = [this] { return Instant(std::chrono::milliseconds(ms_.load())); };
    options.unix_ms = [this] { return ms_.load(); };
    jobs_ = std::make_unique<Jobs>(
        std::make_shared<JournalWriter>(
            std::move(journal), JournalWriter::Options{.retry = std::chrono::milliseconds(1),
                                                       .tick_every = std::chrono::milliseconds(1)}),
        options);
    jobs_->start(
        service_,
        [this](const std::shared_ptr<Exchange>& exchange, CallerRef) {
          const std::scoped_lock lock(mutex_);
          runs_.push_back(std::static_pointer_cast<JobRun>(exchange));
          changed_.notify_all();
        },
        [](MemberId) { return std::make_shared<Caller>(); }, open);
  }
  void stop() {
    jobs_->close();
    jobs_->finish();
    jobs_.reset();
    runs_.clear();
  }

  Result<Jobs::Found> accept(std::string id, std::string key = "", std::string body = "{}") {
    store::NewJob job;
    job.id = std::move(id);
    job.member = "home";
    job.cls = "chat";
    job.kind = "/v1/completions";
    job.idempotency_key = std::move(key);
    job.request.bytes = "x-lares-class: voice\n\n" + body;
    return wait_for<Result<Jobs::Found>>(
        [&](auto take) { jobs_->accept(std::move(job), std::move(take)); });
  }
  // The next attempt that is handed to the routes.
  std::shared_ptr<JobRun> take_run() {
    std::unique_lock lock(mutex_);
    // What waits for its time waits no longer.
    while (
        !changed_.wait_for(lock, std::chrono::milliseconds(1), [this] { return !runs_.empty(); }))
      ms_ += 100;
    auto run = std::move(runs_.front());
    runs_.pop_front();
    return run;
  }
  // What the loop does with it, from its acceptance to its end.
  void end_run(JobRun& run, store::Outcome outcome, std::optional<Error> error = {},
               std::string code = "", std::string answer = "answer") {
    run.on_submit();
    run.on_submitted(JobId{7});
    run.on_started();
    Ended ended;
    ended.error = error;
    ended.error_code = code;
    run.on_ended(ended);
    run.respond(answer_of(error ? 500 : 200, std::move(answer)));
    store::UsageRow row;
    row.job_id = run.id();
    row.outcome = outcome;
    row.reason = code;
    jobs_->usage(std::move(row));
    flush();
  }
  void flush() {
    ms_ += 2000;
    jobs_->flush([] { return store::DeviceTotals{}; });
  }
  // What the journal holds, once everything posted before is written and told.
  template <class T>
  T ask(std::function<T(store::Journal&)> question) {
    return wait_for<T>([&](auto take) {
      const auto found = std::make_shared<T>();
      jobs_->journal().post(
          JournalOp{.work = [question, found](store::Journal& journal) -> Result<> {
                      *found = question(journal);
                      return {};
                    },
                    .done = [found, take](const Result<>&) { take(std::move(*found)); }});
    });
  }
  store::JobRecord read(const std::string& id) {
    return ask<store::JobRecord>([id](store::Journal& journal) { return **journal.find(id); });
  }
  std::vector<std::string> check() {
    return ask<std::vector<std::string>>([](store::Journal& journal) { return *journal.check(); });
  }
  // On the journal's thread, which has the database.
  void set_full(bool full) {
    wait_for<bool>([&](auto take) {
      jobs_->journal().post(JournalOp{.work = [this, full, take](store::Journal&) -> Result<> {
        take(database_
                 ->execute(full ? "PRAGMA max_page_count=1" : "PRAGMA max_page_count=1073741823")
                 .has_value());
        return {};
      }});
    });
  }
  // What `ask` hands to its callback, on whatever thread.
  template <class T, class Ask>
  T wait_for(const Ask& ask) {
    struct Told {
      std::mutex mutex;
      std::condition_variable changed;
      std::optional<T> value;
    };
    const auto told = std::make_shared<Told>();
    ask([told](T value) {
      const std::scoped_lock lock(told->mutex);
      told->value = std::move(value);
      told->changed.notify_all();
    });
    std::unique_lock lock(told->mutex);
    told->changed.wait(lock, [&] { return told->value.has_value(); });
    return std::move(*told->value);
  }

  const std::string folder_ = test_file("jobs" + std::to_string(++number_));
  std::atomic<std::int64_t> ms_ = 1000;
  NoService service_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<JobRun>> runs_;
  store::Database* database_ = nullptr;
  std::unique_ptr<Jobs> jobs_;
  static inline int number_ = 0;
};

TEST_F(JobsTest, AJobIsRunAsItWasAsked) {
  ASSERT_TRUE(accept("job_a"));
  const auto run = take_run();
  EXPECT_EQ(run->request().path, "/v1/completions");
  EXPECT_EQ(run->request().header("x-lares-class"), "voice");
  EXPECT_EQ(run->request().body, "{}");
  EXPECT_EQ(run->request().job.lock().get(), run.get());
  end_run(*run, store::Outcome::Done);
  EXPECT_EQ(read("job_a").state, JobState::Done);
  EXPECT_TRUE(check().empty());
  const auto again = accept("job_b");
  EXPECT_TRUE(again->fresh);
}

TEST_F(JobsTest, AKeyThatWasUsedFindsItsJob) {
  ASSERT_TRUE(accept("job_a", "k"));
  EXPECT_EQ(accept("job_b", "k")->job.id, "job_a");
  end_run(*take_run(), store::Outcome::Done);
  const auto over = accept("job_c", "k");
  EXPECT_FALSE(over->fresh);
  EXPECT_EQ(over->result->bytes, "answer");
}

TEST_F(JobsTest, AfterThreeAttemptsItHasFailedAndSaysWhyEachDid) {
  ASSERT_TRUE(accept("job_a"));
  for (const char* why : {"one", "two", "three"}) {
    const auto run = take_run();
    end_run(*run, store::Outcome::Failed, Error{Code::Io, why}, "failed_repeatedly");
    flush();
  }
  const auto job = read("job_a");
  EXPECT_EQ(job.state, JobState::Failed);
  EXPECT_EQ(job.attempts, 3U);
  EXPECT_EQ(job.error_code, "failed_repeatedly");
  EXPECT_EQ(job.error_message, "three. Attempt 1: one. Attempt 2: two.");
  EXPECT_TRUE(check().empty());
}

TEST_F(JobsTest, WhereThereIsNoRoomItWaits) {
  ASSERT_TRUE(accept("job_a"));
  const auto run = take_run();
  run->on_submit();
  Ended ended;
  ended.error = Error{Code::Busy, "full"};
  run->on_ended(ended);
  run->respond(answer_of(429, ""));
  store::UsageRow row;
  row.outcome = store::Outcome::Refused;
  run->usage(std::move(row));
  ms_ += 2000;
  end_run(*take_run(), store::Outcome::Done);
  EXPECT_EQ(read("job_a").attempts, 1U);
  EXPECT_TRUE(check().empty());
}

TEST_F(JobsTest, ARefusalByItsRouteEndsItWithARow) {
  ASSERT_TRUE(accept("job_a"));
  take_run()->respond(answer_of(400, "no"));
  EXPECT_EQ(read("job_a").state, JobState::Failed);
  EXPECT_TRUE(check().empty());
}

TEST_F(JobsTest, WhatIsCancelledEndsOnce) {
  ASSERT_TRUE(accept("job_a"));
  const auto run = take_run();
  run->on_submit();
  run->on_submitted(JobId{7});
  std::optional<JobState> told;
  const auto seq = read("job_a").seq;
  jobs_->cancel(seq, [&](const Result<JobState>& state) { told = *state; });
  EXPECT_EQ(service_.cancelled, JobId{7});
  end_run(*run, store::Outcome::Cancelled, Error{Code::Conflict, "cancelled"}, "cancelled");
  EXPECT_EQ(read("job_a").state, JobState::Cancelled);
  EXPECT_EQ(told, JobState::Cancelled);
  bool over = false;
  jobs_->cancel(seq, [&](const Result<JobState>& state) { over = !state; });
  EXPECT_TRUE(over);
  EXPECT_TRUE(check().empty());
}

TEST_F(JobsTest, AfterARestartItGoesOnFromItsTokens) {
  ASSERT_TRUE(accept("job_a"));
  ASSERT_TRUE(accept("job_b"));
  const auto run = take_run();
  run->on_submit();
  run->on_started();
  const std::vector<std::int32_t> tokens{5, 6, 7};
  run->on_progress(
      {.seed = 9,
       .parts = {{0, std::string("m@1\0", 4) +
                         std::string(reinterpret_cast<const char*>(tokens.data()), 12)}},
       .advanced = true});
  flush();
  read("job_a");
  stop();
  start();
  const auto again = take_run();
  EXPECT_EQ(again->id(), "job_a") << "the older one is first";
  EXPECT_EQ(again->resume().seed, 9U);
  EXPECT_EQ(again->resume().model, "m@1");
  ASSERT_EQ(again->resume().tokens.size(), 1U);
  EXPECT_EQ(again->resume().tokens[0], tokens);
  EXPECT_TRUE(take_run()->resume().tokens.empty());
}

TEST_F(JobsTest, ThatTheServerDiedOfItThreeTimesIsEnough) {
  ASSERT_TRUE(accept("job_a"));
  for (int i = 0; i < 3; ++i) {
    take_run()->on_started();
    flush();
    read("job_a");
    stop();
    start();
  }
  const auto job = read("job_a");
  EXPECT_EQ(job.state, JobState::Failed);
  EXPECT_EQ(job.error_code, "attempts_exhausted");
  EXPECT_TRUE(check().empty());
}

TEST_F(JobsTest, WhileTheDiskIsFullNewOnesAreRefusedAndWhatRunsIsKept) {
  ASSERT_TRUE(accept("job_a"));
  const auto run = take_run();
  set_full(true);
  // Larger than what is free on the pages that there are.
  const std::string large(60000, 'x');
  const auto refused = accept("job_b", "", large);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::Io);
  end_run(*run, store::Outcome::Done, {}, "", large);
  EXPECT_FALSE(store::is_over(read("job_a").state)) << "nothing is half-written";
  set_full(false);
  while (read("job_a").state != JobState::Done) std::this_thread::yield();
  EXPECT_TRUE(check().empty());
}

TEST_F(JobsTest, AStreamsEventsAreNumberedAndReplayedBehindAny) {
  const std::string stream = "id: a.1\ndata: one\n\nid: a.2\ndata: two\n\nid: a.12\ndata: x\n\n";
  EXPECT_EQ(events_after(stream, ""), stream);
  EXPECT_EQ(events_after(stream, "a.1"), stream.substr(stream.find("id: a.2")));
  EXPECT_EQ(events_after(stream, "a.12"), "");
  EXPECT_EQ(events_after(stream, "b.1"), stream) << "of another attempt: from the beginning";
  struct Owner final : JobRunOwner {
    void run_submitted(std::int64_t, JobId) override {}
    void run_started(std::int64_t) override {}
    void run_progress(std::int64_t, store::Progress) override {}
    void run_over(std::int64_t) override { over = true; }
    bool over = false;
  } owner;
  JobRun run(owner, {1, "job_a", "t"}, {}, {});
  run.begin_stream(200, "text/event-stream", {});
  run.send("data: 1\n\ndata: 2\n\n");
  EXPECT_FALSE(owner.over);
  run.end_stream();
  EXPECT_TRUE(owner.over);
  EXPECT_EQ(run.take().answer.body, "id: t.1\ndata: 1\n\nid: t.2\ndata: 2\n\n");
}

}  // namespace
}  // namespace lares::server
