// The event log: what a scheduler was told and what it answered, as text lines that replay.
//
//   lares-events 4 policy=orca jobs=4096 ...       the options, once
//   @1200000                                       a step, at that time in nanoseconds
//   + submit job=1 member=0 class=1 task=0 model=0 prompt=20 output=64 keys=9f..,1c..
//   - open device=0 model=0 job=1 seq=0 from=0 tokens=0
//
// Lines with + are events, with - actions. A server run writes one (scheduler.event_log); a test,
// or anyone, replays it and gets identical decisions or the first line that differs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"
#include "sched/event.h"
#include "sched/scheduler.h"

namespace lares::sched {

void append_options(std::string& out, const Options& options);
void append_step(std::string& out, Instant now, std::span<const Event> events,
                 const Decision& decision);

struct ReplayReport {
  std::uint64_t steps = 0, events = 0, actions = 0;
};

// Drives a new scheduler with the log's events. Errors: Corrupt, naming the line that cannot be
// read; Conflict, naming the first step whose decision differs and both decisions.
Result<ReplayReport> replay(std::string_view log);

}  // namespace lares::sched
