// Workers as threads of this process: the test double of process_workers().
//
// The same loops over the same sockets and frames, with engines that the test makes. kill() ends
// the connection in both directions, as a crash of the process would; the thread's engine, and with
// it all state, is gone after the worker is destroyed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/sim.h"
#include "text/text_engine.h"
#include "worker/supervisor.h"

namespace lares::worker {

struct ThreadOptions {
  // Called on the worker's thread, once for each start.
  std::function<std::unique_ptr<engine::Engine>()> make_device_engine;
  std::function<std::unique_ptr<text::TextEngine>()> make_text_engine;
  std::function<Result<engine::ModelInfo>(const std::string& path)> probe;
};

std::unique_ptr<WorkerFactory> thread_workers(ThreadOptions options);

// The same with a probe that takes every file for the sim engine's model.
std::unique_ptr<WorkerFactory> thread_workers(
    std::function<std::unique_ptr<engine::Engine>()> make_device_engine,
    std::function<std::unique_ptr<text::TextEngine>()> make_text_engine);

}  // namespace lares::worker
