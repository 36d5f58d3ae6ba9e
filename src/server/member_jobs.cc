#include "server/member_jobs.h"

#include <optional>
#include <utility>
#include <vector>

#include "server/job_link.h"

namespace lares::server {

// Hands events on for as long as the caller may have them.
class MemberJobs::OwnedSink final : public GenerationSink {
 public:
  OwnedSink(std::shared_ptr<MemberJobs> jobs, std::shared_ptr<GenerationSink> inner,
            CallerRef caller, std::shared_ptr<JobLink> link)
      : jobs_(std::move(jobs)),
        inner_(std::move(inner)),
        caller_(std::move(caller)),
        link_(std::move(link)) {}

  void on_event(GenerationEvent event) override {
    auto* ended = std::get_if<Ended>(&event);
    if (ended != nullptr) finished();
    if (over_) return;
    // What ended well has reached its end: only the middle of an answer can be taken away.
    if (caller_->gone() && (ended == nullptr || ended->error)) {
      over_ = true;
      Ended removed;
      if (ended != nullptr) removed.usage = ended->usage;
      removed.error = Error{Code::Forbidden,
                            "the key that began this was taken away; ask whoever runs this server "
                            "for a new one"};
      removed.error_code = "key_removed";
      if (link_) link_->on_ended(removed);
      inner_->on_event(std::move(removed));
      if (ended == nullptr) jobs_->end_revoked();
      return;
    }
    if (ended != nullptr && link_) link_->on_ended(*ended);
    inner_->on_event(std::move(event));
  }

  // The jobs' mutex is held.
  std::optional<JobId> job;
  bool finished_early = false;

 private:
  void finished() {
    const std::scoped_lock lock(jobs_->mutex_);
    if (job) jobs_->live_.erase(*job);
    finished_early = !job;
  }

  const std::shared_ptr<MemberJobs> jobs_;
  const std::shared_ptr<GenerationSink> inner_;
  const CallerRef caller_;
  const std::shared_ptr<JobLink> link_;
  bool over_ = false;  // The loop's thread, which brings the events.
};

JobId MemberJobs::submit(Generation generation, std::shared_ptr<GenerationSink> sink,
                         CallerRef caller) {
  generation.member = caller->member.share;
  const std::shared_ptr<JobLink> link = generation.job;
  if (link) link->on_submit();
  const auto owned = std::make_shared<OwnedSink>(shared_from_this(), std::move(sink), caller, link);
  const JobId job = service_.submit(std::move(generation), owned);
  {
    const std::scoped_lock lock(mutex_);
    owned->job = job;
    if (!owned->finished_early) live_.emplace(job, caller);
  }
  if (link) link->on_submitted(job);
  // Taken away between its admission and now: whoever looked then did not find this one.
  if (caller->gone()) service_.cancel(job);
  return job;
}

bool MemberJobs::cancel(JobId job, const Caller& by) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(job);
    if (found == live_.end()) return false;
    const bool own = found->second->member.share.id == by.member.share.id;
    if (!own && !by.member.admin) return false;
  }
  return service_.cancel(job);
}

void MemberJobs::end_revoked() {
  std::vector<JobId> gone;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [job, caller] : live_) {
      if (caller->gone()) gone.push_back(job);
    }
  }
  for (const JobId job : gone) service_.cancel(job);
}

}  // namespace lares::server
