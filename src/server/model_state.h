// What the loop knows of one model that it serves: plain data, owned by the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "sched/cost_table.h"
#include "server/detokenizer.h"
#include "server/loop.h"
#include "server/step_watch.h"

namespace lares::server {

// A served model.
struct ModelState {
  enum class At : std::uint8_t { Probing, Available, Loading, Ready, Failed };

  ModelEntry entry;
  At at = At::Probing;
  std::string error;
  engine::ModelInfo info;
  std::uint64_t created = 0;
  std::uint32_t context = 0;       // Known once probed.
  std::uint32_t pool_tokens = 0;   // Known once loaded.
  std::uint32_t pool_most = 0;     // Since memory ran out with it; 0: it never did.
  std::uint32_t load_crashes = 0;  // Device workers that died while loading it.
  bool gone = false;               // Served no more; unloaded once nobody uses it.
  bool embeds = false;             // The twin of another entry: loaded for embeddings.
  std::uint32_t twin = 0;          // The other entry of the same file.
  bool load_wanted = false;        // Asked for while there was no device worker.
  bool vocabulary_asked = false;
  std::optional<PieceTable> pieces;
  StepWatch watch;
  std::string cost_key;                  // Of its file, as it is now, on this device.
  std::optional<sched::CostTable> cost;  // Known from an earlier load.
  Bytes need{};       // What holding it takes, but for weights; a guess until loaded.
  Duration reload{};  // How long loading takes; the same.
  bool measured = false;
  bool loads_alone = false;         // It did not fit beside others.
  Duration keep = Duration::max();  // As its entry says, or as a request asked later.
  std::uint64_t loads = 0, unloads = 0;
  Duration pass_spent{};         // Of an image model: by the pass that runs.
  std::vector<JobId> seq_owner;  // By sequence: the scheduler's job that opened it; 0 = nobody.
};

// For people.
constexpr std::string_view name_of(ModelState::At at) {
  switch (at) {
    case ModelState::At::Probing: return "probing";
    case ModelState::At::Available: return "available";
    case ModelState::At::Loading: return "loading";
    case ModelState::At::Ready: return "ready";
    case ModelState::At::Failed: return "failed";
  }
  return "?";
}

}  // namespace lares::server
