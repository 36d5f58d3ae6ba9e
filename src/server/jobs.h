// The jobs of the journal that are not over: accepted, handed to the routes in their turn,
// followed, ended.
//
//   accept -> journal -> 202 -> queue -> routes -> loop -> answer and usage row -> journal
//
// Any thread; nothing blocks. Callbacks of the journal come on its thread, in the order of its
// transactions, so whoever has read there that a job is not over may follow it from that callback
// and misses nothing.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "server/access.h"
#include "server/answer.h"
#include "server/job_queue.h"
#include "server/job_run.h"
#include "server/journal_writer.h"
#include "server/service.h"

namespace lares::server {

struct JobsOptions {
  JobQueue::Limits window;
  // Attempts in a row without any progress after which a job has failed.
  std::uint32_t attempts_max = 3;
  // Jobs of one member that are not over.
  std::uint32_t member_max = 10000;
  store::Retention retention{};
  // After retention took something away; on the journal's thread, in its transaction.
  std::function<void(store::Journal&)> retained{};
  std::function<void()> on_tick{};        // About once a second, on the journal's thread.
  std::function<Instant()> now;           // Required.
  std::function<std::int64_t()> unix_ms;  // Required.
};

class Jobs final : public JobRunOwner {
 public:
  // Runs a request as its caller's.
  using Runner = std::function<void(const std::shared_ptr<Exchange>&, CallerRef)>;
  // Whoever has a key now, or nothing.
  using FindCaller = std::function<CallerRef(MemberId)>;

  Jobs(std::shared_ptr<JournalWriter> journal, JobsOptions options);

  // Once, when everything else is there: takes `open` on again, as Journal::recover() gave them.
  // `service` must outlive the last run.
  void start(Service& service, Runner runner, FindCaller callers,
             const std::vector<store::JobRecord>& open);
  // Hands no more jobs to the loop and takes none on.
  void close();
  [[nodiscard]] bool closing() const { return closing_.load(std::memory_order_relaxed); }
  // After the loop has stopped: those who follow a job hear that it goes on at the next start.
  void let_followers_go();
  // Writes what is left; nothing is called back after that. Before the loop and the routes go.
  void finish();

  // The loop's: rows of usage, those of jobs among them; and what is to be written with them.
  void usage(store::UsageRow row);
  void flush(const std::function<store::DeviceTotals()>& totals);

  // What the journal holds of a job, or what it was asked for.
  struct Found {
    store::JobRecord job;
    bool fresh = false;                     // It was made by this call.
    std::optional<store::Artefact> result;  // Of one that is over.
  };
  using Take = std::function<void(Result<Found>)>;
  // Commits the job, or finds the one that has its Idempotency-Key. Errors: Busy (member_max),
  // Unavailable (closing), Io (it cannot be written).
  void accept(store::NewJob job, Take take);
  // Where it stands among the member's own; nothing once it has been handed to the loop.
  std::optional<std::uint32_t> position(std::int64_t seq);
  // Its request in the loop.
  std::optional<JobId> request_of(std::int64_t seq);

  // Within `take`, for a job that is not over: its answer when it is, as a stream from the
  // beginning (or behind `after`) if it is one.
  void follow(std::int64_t seq, const std::shared_ptr<Answer>& answer, std::string after);
  // The same: each event behind number `told`.
  void follow_events(std::int64_t seq, const std::shared_ptr<Answer>& answer, std::int64_t told);

  // Ends it; `done` once that is written, with what it has become.
  void cancel(std::int64_t seq, std::function<void(Result<store::JobState>)> done);
  // A job that failed or was cancelled is queued again.
  void retry(store::JobRecord job, std::function<void(const Result<>&)> done);

  JournalWriter& journal() { return *journal_; }
  [[nodiscard]] const JobsOptions& options() const { return options_; }

  // JobRunOwner
  void run_submitted(std::int64_t seq, JobId request) override;
  void run_started(std::int64_t seq) override;
  void run_progress(std::int64_t seq, store::Progress progress) override;
  void run_over(std::int64_t seq) override;

 private:
  struct Follower {
    std::shared_ptr<Answer> answer;
    std::optional<std::int64_t> told{};  // Of one that gets events: the last it had.
    std::string after{};                 // Of another: the last of a stream's that it had.
  };
  struct Live {
    store::JobRecord job;
    std::shared_ptr<JobRun> run;  // While it is with the routes and the loop.
    std::optional<JobId> request;
    bool out = false;      // Of the queue.
    bool started = false;  // This attempt is in the journal.
    bool cancelled = false;
    std::vector<Follower> followers;
    std::vector<std::function<void(Result<store::JobState>)>> when_over;
    std::int64_t events_told = 0;  // The journal's thread.
  };
  static JobQueue::Lane lane_of(const store::JobRecord& job) { return {job.member_id, job.cls}; }

  void tick();
  void pump();
  void launch(std::int64_t seq);
  void run(std::int64_t seq, const store::Artefact& request,
           const std::vector<store::Checkpoint>& parts);
  void add_live(const store::JobRecord& job);
  enum class When : std::uint8_t { Now, AtFlush };
  void post(std::int64_t seq, std::function<Result<>(store::Journal&)> work, When when,
            std::function<void()> then = {});
  void attempt_over(std::int64_t seq, JobRun::Outcome outcome);
  void try_again(std::int64_t seq, const JobRun::Outcome& outcome);
  void leave_for_next_start(std::int64_t seq, const JobRun::Outcome& outcome);
  void put_back(std::int64_t seq, Duration wait);
  void end(std::int64_t seq, store::JobEnd end, When when);
  void over(std::int64_t seq, const store::JobEnd& end);
  void tell_events(std::int64_t seq, const std::vector<store::JobEvent>& events);
  [[nodiscard]] store::JobEnd unrun(const store::JobRecord& job, store::Outcome outcome,
                                    const ApiError& error) const;
  void end_unrun(std::int64_t seq, store::Outcome outcome, const ApiError& error);
  void pay(std::int64_t seq);

  const std::shared_ptr<JournalWriter> journal_;
  const JobsOptions options_;
  Service* service_ = nullptr;
  Runner runner_;
  FindCaller callers_;
  std::atomic<bool> closing_{false};
  Instant retained_at_{};  // The journal's thread.

  std::mutex mutex_;
  JobQueue queue_;
  std::map<std::int64_t, Live> live_;
  std::map<std::string, std::int64_t, std::less<>> by_id_;
  std::map<MemberId, std::uint32_t> members_;  // How many live ones each has.

  // What flush() writes in one transaction.
  std::mutex buffer_mutex_;
  std::vector<JournalOp> buffer_;
  std::vector<store::UsageRow> rows_;
  // Device time of runs whose row is here and whose answer is not: pictures are packed meanwhile.
  std::map<std::int64_t, Duration> unpaid_;
  store::DeviceTotals totals_;  // As the loop gave them last.
  Instant flushed_at_{};
};

// What the journal keeps of a request: some of its headers, and its body.
std::string kept_request(const HttpRequest& request);
// And back. `kept` is malformed only if somebody changed it.
HttpRequest request_from(const store::JobRecord& job, std::string_view kept);

// An event of a job as clients get it: "id: 2\nevent: running\ndata: {...}\n\n".
std::string job_event_text(const store::JobEvent& event);

}  // namespace lares::server
