// What a request says about its work in headers, whichever API its body speaks:
//
//   X-Lares-Task: ID         groups an agent's calls; within a member tasks share fairly
//   X-Lares-Supersede: KEY   cancels the member's older requests with that key (a longer prefix
//                            typed, a voice command spoken over)
//   X-Lares-Events: queue    a stream hears where it stands while it waits
#pragma once

#include <tl/expected.hpp>

#include "server/errors.h"
#include "server/generation.h"
#include "server/http.h"

namespace lares::server {

// Task and Supersede, and the job of the journal, if it is one's. Stable codes: `task_too_long`,
// `supersede_too_long`.
tl::expected<void, ApiError> read_work_headers(const HttpRequest& request, Generation& generation);

// Events; of no effect where nothing is streamed. Stable code: `events_unknown`.
tl::expected<bool, ApiError> wants_queue_events(const HttpRequest& request);

}  // namespace lares::server
