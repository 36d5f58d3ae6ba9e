// The requests that are under way, by who asked for them: a member cancels its own and nobody
// else's, and what a key began ends when the key is taken away.
//
// Shared; any thread. Stands between the routes and the Service.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "server/access.h"
#include "server/service.h"

namespace lares::server {

class MemberJobs : public std::enable_shared_from_this<MemberJobs> {
 public:
  // `service` must outlive every job and every call.
  explicit MemberJobs(Service& service) : service_(service) {}

  // As Service::submit(); the generation is the caller's from here on. Once the caller is gone, the
  // sink gets Ended with the code `key_removed` instead of the next event.
  JobId submit(Generation generation, std::shared_ptr<GenerationSink> sink, CallerRef caller);

  // False if there is no such job, or it is not theirs to cancel.
  bool cancel(JobId job, const Caller& by);
  void client_left(JobId job) { service_.cancel(job); }

  // Cancels what callers that are gone have waiting or running.
  void end_revoked();

 private:
  class OwnedSink;

  Service& service_;
  std::mutex mutex_;
  std::unordered_map<JobId, CallerRef> live_;
};

}  // namespace lares::server
