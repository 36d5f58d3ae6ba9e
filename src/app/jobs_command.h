// `lares jobs`: work that outlives its client, of a running server.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace lares::app {

// Arguments after the verb: [list|show|result|wait|cancel|retry] [ID]; kHelp in the source has the
// rest. Returns the exit status.
int run_jobs_command(std::span<const std::string> arguments);

// An aligned table of what GET /v1/jobs answered, or "no jobs". Errors: Corrupt.
Result<std::string> jobs_table(std::string_view body);
// One job, a line a field. Errors: Corrupt.
Result<std::string> job_text(std::string_view body);

}  // namespace lares::app
