// Sequences' states that go to the host's memory and come back: the scheduler says which, the
// worker copies.
#include <algorithm>

#include "core/log.h"
#include "server/loop_core.h"

namespace lares::server {
namespace {

constexpr DeviceId kDevice{0};

}  // namespace

void LoopCore::perform(const sched::SaveState& action) {
  metrics_.states_saved.add();
  to_device(worker::Save{{.model = action.model,
                          .seq = action.seq,
                          .state = action.state,
                          .from = action.from,
                          .tokens = action.tokens}});
}

void LoopCore::perform(const sched::RestoreState& action) {
  const auto owner = choices_.find(action.job);
  if (owner == choices_.end()) return;
  Request& request = requests_.at(owner->second.first);
  if (!action.own && request.usage.output_tokens == 0)
    request.usage.cached_tokens = std::min(action.end, request.prompt_tokens);
  metrics_.states_restored.add();
  to_device(worker::Restore{
      {.model = action.model, .seq = action.seq, .state = action.state, .end = action.end}});
}

void LoopCore::perform(const sched::ForgetState& action) {
  to_device(worker::Forget{action.model, action.state});
}

void LoopCore::handle(const worker::SaveDone& message) {
  events_.emplace_back(
      sched::StateSaved{kDevice, message.saved.state, message.saved.bytes, message.saved.took});
}

void LoopCore::handle(const worker::SaveFailed& message) {
  log_warn("a sequence was not saved; it will be computed again", {{"why", message.error.message}});
  events_.emplace_back(sched::StateLost{kDevice, message.state});
}

void LoopCore::handle(const worker::RestoreFailed& message) {
  if (message.model.value >= models_.size()) return;
  const auto& owners = models_[message.model.value].seq_owner;
  if (message.seq.value >= owners.size()) return;
  log_warn("a sequence was not put back; it is computed again", {{"why", message.error.message}});
  events_.emplace_back(sched::RestoreFailed{owners[message.seq.value]});
}

}  // namespace lares::server
