// Jobs as clients see them.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/queue.h"
#include "store/job_record.h"
#include "store/webhook_record.h"

namespace lares::server {

// What is known of a job that waits or runs, beside its record.
struct JobPlace {
  std::optional<std::uint32_t> position;  // How many go before it.
  std::string reason;
  std::optional<Duration> estimate;  // Until it begins.
};

// {"id":"job_...","object":"job","state":"queued",...}
struct JobParts {
  std::vector<store::Attempt> attempts{};
  std::vector<store::ArtefactHead> artefacts{};
  std::optional<store::Webhook> webhook{};
};
std::string job_json(const store::JobRecord& job, const JobPlace& place = {},
                     const JobParts& parts = {});

// {"object":"list","data":[...],"has_more":true,"next":"job_..."}
std::string job_list_json(const std::vector<store::JobRecord>& jobs, bool more);

}  // namespace lares::server
