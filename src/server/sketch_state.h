// What the loop knows of one sketch that it carries out. Owned by the loop thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/generation.h"
#include "server/sketch_run.h"
#include "worker/message.h"

namespace lares::server {

// What a request came to that a sketch made: texts or vectors by unit, or why not.
struct SketchTexts {
  JobId request{};
  std::vector<std::uint32_t> units{};
  std::string text{};
  std::vector<std::vector<float>> vectors{};
  std::optional<Ended> failed{};
};

// A piece of work that the scheduler has.
struct SketchJob {
  SketchWork work;
  bool prepared = false;  // Sent to the device worker.
};

struct SketchState {
  std::unique_ptr<SketchHost> host;
  std::optional<SketchRun> run;           // Over `host`.
  std::map<std::string, ModelId> models;  // Of the plan, by name, as they were when it began.
  std::map<std::uint32_t, JobId> jobs;    // By unit: the scheduler's id.
  std::map<JobId, SketchJob> work;        // By the same.
  std::map<engine::Handle, Bytes> held;   // As the worker said when it was prepared.
  // Done at once, but not before the model is there: with the first pass on it.
  std::vector<worker::Prepare> deferred;
  std::vector<JobId> texts;     // Requests of its own, for what it asks and embeds.
  std::vector<JobId> all_jobs;  // That it ever had.
  std::uint32_t deaths = 0;     // Workers that died computing it.
  std::optional<Instant> previewed_at{}, noted_at{};
  bool preview_asked = false;
};

}  // namespace lares::server
