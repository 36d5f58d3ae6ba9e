// For the server's own threads: computing goes first.
//
// ggml's compute threads wait for each other by spinning, so one that is pushed off its core by a
// thread that just woke up keeps all of them waiting. Under SCHED_BATCH a waking thread does not
// push a running one aside; it takes a free core at once, or waits for the next tick of the
// scheduler. Measured with 16 streams on two busy cores: the device stood still 61 us a step
// instead of 160, tokens/s as before or better.
#pragma once

namespace lares::server {

// For the calling thread; what it starts (threads, workers) is normal again. No harm where it is
// refused.
void let_compute_go_first();

}  // namespace lares::server
