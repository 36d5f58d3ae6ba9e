#include "server/jobs.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "server/job_results.h"

namespace lares::server {
namespace {

// Where the device's time went is written at least so often.
constexpr Duration kFlushEvery = std::chrono::seconds(1);
constexpr Duration kRetainEvery = std::chrono::minutes(1);

thread_local bool on_loop = false;  // This thread calls flush().

}  // namespace

std::string job_event_text(const store::JobEvent& event) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.number, event.name, event.data);
}

Jobs::Jobs(std::shared_ptr<JournalWriter> journal, JobsOptions options)
    : journal_(std::move(journal)), options_(std::move(options)), queue_(options_.window) {
  LARES_ASSERT(options_.now && options_.unix_ms, "jobs need clocks");
}

void Jobs::start(Service& service, Runner runner, FindCaller callers,
                 const std::vector<store::JobRecord>& open) {
  service_ = &service;
  runner_ = std::move(runner);
  callers_ = std::move(callers);
  for (const store::JobRecord& job : open) {
    {
      const std::scoped_lock lock(mutex_);
      add_live(job);
      if (job.tries < options_.attempts_max) queue_.add(job.seq, lane_of(job));
    }
    if (job.tries < options_.attempts_max) continue;
    ApiError error;
    error.code = Code::Io;
    error.error_code = "attempts_exhausted";
    error.message =
        fmt::format("the server stopped {} times while this ran and brought nothing", job.tries);
    end_unrun(job.seq, store::Outcome::Failed, error);
  }
  journal_->set_tick([this] { tick(); });
  pump();
}

void Jobs::close() {
  closing_.store(true);
}

void Jobs::finish() {
  std::vector<JournalOp> ops;
  {
    // What was packed after the loop's last word.
    const std::scoped_lock lock(buffer_mutex_);
    ops.swap(buffer_);
    for (const auto& [seq, device] : unpaid_) totals_.open += device;
    if (!ops.empty()) {
      ops.push_back({.work = [totals = totals_](
                                 store::Journal& journal) { return journal.save_totals(totals); },
                     .must = true});
    }
  }
  journal_->post(std::move(ops));
  journal_->stop();
  runner_ = nullptr;
}

void Jobs::let_followers_go() {
  std::vector<std::pair<Follower, std::shared_ptr<JobRun>>> gone;
  {
    const std::scoped_lock lock(mutex_);
    for (auto& [seq, live] : live_) {
      for (Follower& follower : live.followers) gone.emplace_back(std::move(follower), live.run);
      live.followers.clear();
    }
  }
  ApiError error;
  error.code = Code::Unavailable;
  error.error_code = "server_stopping";
  error.message = "the server is stopping; the job goes on at its next start";
  for (const auto& [follower, run] : gone) {
    if (follower.told) {
      follower.answer->end_stream();
    } else if (!run || !run->streams_to(follower.answer.get())) {
      follower.answer->fail(error);
    }
  }
}

void Jobs::usage(store::UsageRow row) {
  if (row.job_id.empty()) {
    const std::scoped_lock lock(buffer_mutex_);
    rows_.push_back(std::move(row));
    return;
  }
  std::shared_ptr<JobRun> run;
  std::int64_t seq = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = by_id_.find(row.job_id); found != by_id_.end()) {
      seq = found->second;
      run = live_.at(seq).run;
    }
  }
  if (!run) return;
  {
    const std::scoped_lock lock(buffer_mutex_);
    unpaid_[seq] = row.device;
    // The next flush() is one that knows of it.
    buffer_.push_back({.work = [](store::Journal&) -> Result<> { return {}; }});
  }
  run->usage(std::move(row));
}

// What its attempt took is the journal's now, or nobody's.
void Jobs::pay(std::int64_t seq) {
  const std::scoped_lock lock(buffer_mutex_);
  unpaid_.erase(seq);
}

void Jobs::flush(const std::function<store::DeviceTotals()>& totals) {
  on_loop = true;
  std::vector<JournalOp> ops;
  {
    const std::scoped_lock lock(buffer_mutex_);
    const Instant now = options_.now();
    if (buffer_.empty() && rows_.empty() && now < flushed_at_ + kFlushEvery) return;
    flushed_at_ = now;
    ops.swap(buffer_);
    totals_ = totals();
    store::DeviceTotals written = totals_;
    for (const auto& [seq, device] : unpaid_) written.open += device;
    ops.push_back({.work = [rows = std::exchange(rows_, {}),
                            totals = written](store::Journal& journal) -> Result<> {
                     TRY_VOID(journal.record(rows));
                     return journal.save_totals(totals);
                   },
                   .must = true});
    // Within the lock: what others post meanwhile comes behind it.
    journal_->post(std::move(ops));
  }
}

void Jobs::tick() {
  pump();
  if (options_.on_tick) options_.on_tick();
  if (options_.now() < retained_at_ + kRetainEvery) return;
  retained_at_ = options_.now();
  journal_->post(JournalOp{.work = [this](store::Journal& journal) -> Result<> {
    const auto gone = TRY(journal.retain(options_.retention, options_.unix_ms()));
    if (gone > 0 && options_.retained) options_.retained(journal);
    return {};
  }});
}

void Jobs::add_live(const store::JobRecord& job) {
  Live& live = live_[job.seq];
  live.job = job;
  by_id_[job.id] = job.seq;
  ++members_[job.member_id];
}

void Jobs::accept(store::NewJob job, Take take) {
  if (closing()) return take(fail(Code::Unavailable, "the server is stopping; try again soon"));
  {
    const std::scoped_lock lock(mutex_);
    const auto has = members_.find(job.member_id);
    if (has != members_.end() && has->second >= options_.member_max) {
      return take(fail(Code::Busy, fmt::format("{} has {} jobs that are not over, the most that "
                                               "are taken; wait for some, or cancel them",
                                               job.member, has->second)));
    }
  }
  const auto found = std::make_shared<Found>();
  JournalOp op;
  op.work = [job = std::move(job), found](store::Journal& journal) -> Result<> {
    *found = {};
    if (!job.idempotency_key.empty()) {
      if (auto there = TRY(journal.find_by_key(job.member_id, job.idempotency_key))) {
        found->job = std::move(*there);
        if (store::is_over(found->job.state))
          found->result = TRY(read_answer(journal, found->job.seq));
        return {};
      }
    }
    found->fresh = true;
    found->job = TRY(journal.add(job));
    return {};
  };
  op.done = [this, found, take = std::move(take)](const Result<>& written) {
    if (!written) return take(tl::unexpected(written.error()));
    if (found->fresh) {
      const std::scoped_lock lock(mutex_);
      add_live(found->job);
      queue_.add(found->job.seq, lane_of(found->job));
    }
    const bool fresh = found->fresh;
    take(std::move(*found));
    if (fresh) pump();
  };
  journal_->post(std::move(op));
}

std::optional<std::uint32_t> Jobs::position(std::int64_t seq) {
  const std::scoped_lock lock(mutex_);
  const auto found = live_.find(seq);
  if (found == live_.end() || found->second.run) return std::nullopt;
  return queue_.position(seq, lane_of(found->second.job));
}

std::optional<JobId> Jobs::request_of(std::int64_t seq) {
  const std::scoped_lock lock(mutex_);
  const auto found = live_.find(seq);
  return found == live_.end() ? std::nullopt : found->second.request;
}

void Jobs::follow(std::int64_t seq, const std::shared_ptr<Answer>& answer, std::string after) {
  std::shared_ptr<JobRun> run;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(seq);
    LARES_ASSERT(found != live_.end(), "job {} is not over", seq);
    run = found->second.run;
    found->second.followers.push_back({.answer = answer, .after = after});
  }
  if (run) run->follow(answer, after);
  // One that leaves is not kept until the end; the job goes on.
  answer->on_disconnect([this, seq, leaving = std::weak_ptr(answer)] {
    const auto gone = leaving.lock();
    std::shared_ptr<JobRun> runs;
    {
      const std::scoped_lock lock(mutex_);
      const auto found = live_.find(seq);
      if (found == live_.end()) return;
      std::erase_if(found->second.followers, [&](const auto& f) { return f.answer == gone; });
      runs = found->second.run;
    }
    if (runs) runs->unfollow(gone.get());
  });
}

void Jobs::follow_events(std::int64_t seq, const std::shared_ptr<Answer>& answer,
                         std::int64_t told) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(seq);
    LARES_ASSERT(found != live_.end(), "job {} is not over", seq);
    found->second.followers.push_back({.answer = answer, .told = told});
  }
  answer->on_disconnect([this, seq, leaving = std::weak_ptr(answer)] {
    const auto gone = leaving.lock();
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(seq);
    if (found == live_.end()) return;
    std::erase_if(found->second.followers, [&](const auto& f) { return f.answer == gone; });
  });
}

void Jobs::cancel(std::int64_t seq, std::function<void(Result<store::JobState>)> done) {
  std::optional<JobId> request;
  bool waited = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(seq);
    if (found == live_.end()) return done(fail(Code::Conflict, "it is over already"));
    Live& live = found->second;
    live.cancelled = true;
    live.when_over.push_back(std::move(done));
    request = live.request;
    waited = queue_.remove(seq, lane_of(live.job));
  }
  if (request) service_->cancel(*request);
  if (!waited) return;
  ApiError error;
  error.code = Code::Conflict;
  error.error_code = "cancelled";
  error.message = "the job was cancelled";
  end_unrun(seq, store::Outcome::Cancelled, error);
}

void Jobs::retry(store::JobRecord job, std::function<void(const Result<>&)> done) {
  JournalOp op;
  op.work = [seq = job.seq, ms = options_.unix_ms()](store::Journal& journal) {
    return journal.reopen(seq, ms);
  };
  op.done = [this, job = std::move(job), done = std::move(done)](const Result<>& written) mutable {
    if (written) {
      const std::scoped_lock lock(mutex_);
      job.state = store::JobState::Queued;
      job.tries = 0;
      job.seed.reset();
      add_live(job);
      queue_.add(job.seq, lane_of(job));
    }
    done(written);
    if (written) pump();
  };
  journal_->post(std::move(op));
}

// One of the journal's calls on a job that must be written; its followers hear of its events.
void Jobs::post(std::int64_t seq, std::function<Result<>(store::Journal&)> work, When when,
                std::function<void()> then) {
  const auto events = std::make_shared<std::vector<store::JobEvent>>();
  JournalOp op;
  op.must = true;
  op.work = [this, seq, work = std::move(work), events](store::Journal& journal) -> Result<> {
    TRY_VOID(work(journal));
    std::int64_t told = 0;
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = live_.find(seq); found != live_.end())
        told = found->second.events_told;
    }
    *events = TRY(journal.events(seq, told));
    return {};
  };
  op.done = [this, seq, events, then = std::move(then)](const Result<>& /*written*/) {
    tell_events(seq, *events);
    if (then) then();
  };
  const std::scoped_lock lock(buffer_mutex_);
  unpaid_.erase(seq);
  if (when == When::Now) return journal_->post(std::move(op));
  // What is packed while the loop sleeps is not left until it wakes up. As long as something waits
  // for a flush, one comes, and its totals are newer than those here.
  if (on_loop || !buffer_.empty()) return buffer_.push_back(std::move(op));
  store::DeviceTotals written = totals_;
  for (const auto& [other, device] : unpaid_) written.open += device;
  std::vector<JournalOp> ops;
  ops.push_back(std::move(op));
  ops.push_back(
      {.work = [written](store::Journal& journal) { return journal.save_totals(written); },
       .must = true});
  journal_->post(std::move(ops));
}

void Jobs::tell_events(std::int64_t seq, const std::vector<store::JobEvent>& events) {
  std::vector<std::pair<std::shared_ptr<Answer>, std::string>> told;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(seq);
    if (found == live_.end() || events.empty()) return;
    Live& live = found->second;
    live.events_told = std::max(live.events_told, events.back().number);
    for (Follower& follower : live.followers) {
      if (!follower.told) continue;
      std::string text;
      for (const store::JobEvent& event : events) {
        if (event.number > *follower.told) text += job_event_text(event);
      }
      follower.told = std::max(*follower.told, events.back().number);
      if (!text.empty()) told.emplace_back(follower.answer, std::move(text));
    }
  }
  for (auto& [answer, text] : told) answer->send(std::move(text));
}

}  // namespace lares::server
