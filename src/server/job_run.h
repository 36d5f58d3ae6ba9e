// One attempt of a job: its request goes through the routes as a client's would, and its answer is
// collected here.
//
// It is the Exchange that the routes answer and the JobLink that the loop reports to. Shared; any
// thread. What a stream says is also passed on to clients that follow it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/http.h"
#include "server/job_link.h"
#include "store/usage.h"

namespace lares::server {

class JobRun;

// What a JobRun reports; must not block. All but on_submitted on the loop's thread, unless the
// request was answered before it got there.
class JobRunOwner {
 public:
  virtual ~JobRunOwner() = default;
  virtual void run_submitted(std::int64_t seq, JobId request) = 0;
  virtual void run_started(std::int64_t seq) = 0;
  virtual void run_progress(std::int64_t seq, store::Progress progress) = 0;
  // It has been answered; and, if it got to the loop, its usage row is there. Last, once.
  virtual void run_over(std::int64_t seq) = 0;
};

class JobRun final : public Exchange, public JobLink {
 public:
  struct Of {
    std::int64_t seq;
    std::string id;
    std::string tag;  // Of this attempt and no other: the ids of a stream's events begin with it.
  };
  // `owner` must outlive it. bind() it to itself before it is handed to a route.
  JobRun(JobRunOwner& owner, Of of, HttpRequest request, Resume resume);
  void bind(std::weak_ptr<JobLink> self) { request_.job = std::move(self); }

  // What the attempt came to; once it is over.
  struct Outcome {
    HttpResponse answer;
    std::vector<store::Artefact> files;
    std::optional<Error> error;  // Why the loop ended it, if not well.
    std::string error_code;
    Duration retry_after{};
    std::optional<store::UsageRow> usage;  // Nothing: it never got to the loop.
  };
  Outcome take();
  void usage(store::UsageRow row);

  // Passes a stream on to `answer`, from the beginning, or behind the event `after` of its ids;
  // true once it has begun. What is not streamed is not passed on.
  void follow(std::shared_ptr<Answer> answer, const std::string& after);
  // Whether it has passed anything on to this one.
  bool streams_to(const Answer* answer);
  void unfollow(const Answer* answer);

  // Exchange
  [[nodiscard]] const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void begin_stream(int status, std::string content_type, Headers headers) override;
  void send(std::string data) override;
  void end_stream() override;
  void on_disconnect(std::function<void()> /*callback*/) override {}  // Nobody leaves.

  // JobLink
  [[nodiscard]] const std::string& id() const override { return of_.id; }
  [[nodiscard]] const Resume& resume() const override { return resume_; }
  void on_submit() override;
  void on_submitted(JobId request) override { owner_.run_submitted(of_.seq, request); }
  void on_started() override { owner_.run_started(of_.seq); }
  void on_progress(store::Progress progress) override {
    owner_.run_progress(of_.seq, std::move(progress));
  }
  void on_file(store::Artefact file) override;
  void on_ended(const Ended& ended) override;

 private:
  void tell_if_over(std::unique_lock<std::mutex>& lock);

  JobRunOwner& owner_;
  const Of of_;
  HttpRequest request_;
  const Resume resume_;

  std::mutex mutex_;
  bool submitted_ = false, answered_ = false, told_ = false, streaming_ = false;
  Outcome outcome_;
  bool numbered_ = false;  // A stream of events: each has an id.
  std::uint64_t events_ = 0;
  std::vector<std::pair<std::shared_ptr<Answer>, std::string>> followers_;
};

// The stream's events behind the one with this id: all of them if there is none.
std::string_view events_after(std::string_view stream, std::string_view id);

}  // namespace lares::server
