// Where the time of requests went, as each of them was waited for: for `lares doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"

namespace lares::store {

// A part of a request's way, without what is counted as another: waiting for a model is no part of
// the queue, and handing over goes on while text is made.
struct Segment {
  std::string name;  // queue, model_load, text_work, prefill, inference, deliver
  std::uint64_t requests = 0;
  double seconds = 0;  // Over all of them.
  double mean_s = 0, p95_s = 0;
};

// Of requests that were accepted since then and done, the longest sum first; those that nobody
// waited in are left out. Read-only. Errors: NotFound (nothing has served from that folder), Io,
// Corrupt.
Result<std::vector<Segment>> segments_since(const std::string& folder, std::int64_t unix_ms);

// When the newest request was accepted, in ms since 1970; 0 if there is none. Errors: the same.
Result<std::int64_t> newest_request(const std::string& folder);

}  // namespace lares::store
