// The loops that run inside the worker processes.
#pragma once

#include <string>

#include "core/result.h"
#include "engine/engine.h"
#include "text/text_engine.h"
#include "worker/channel.h"

namespace lares::worker {

// Serves a device until the channel closes. A second thread reads the channel, so that a Cancel
// reaches a run that is queued behind the one computing; models load on a thread of their own at
// low priority beside running steps. Sends Hello first.
void run_device_worker(Channel& channel, engine::Engine& engine);

// Serves text requests in order until the channel closes. Sends Hello first.
void run_text_worker(Channel& channel, text::TextEngine& engine);

}  // namespace lares::worker
