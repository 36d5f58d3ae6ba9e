// Who is to be told that a job is over: plain values.
#pragma once

#include <cstdint>
#include <string>

#include "store/job_record.h"

namespace lares::store {

struct Webhook {
  std::string url;
  std::string state;  // "waiting" for the end, "due", "done", "failed".
  std::uint32_t tries = 0;
  std::int64_t due_unix_ms = 0;
  std::string reason;  // Of the last try that failed.
};

// One that is to be tried now.
struct DueWebhook {
  JobRecord job;
  std::string url;
  std::uint32_t tries = 0;  // So far.
};

}  // namespace lares::store
