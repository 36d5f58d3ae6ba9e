// States of sequences in the host's memory.
//
// The library copies whole sequences. A part of one goes through a scratch sequence: its cells are
// shared with that one first, and the other way round when it comes back, so that what is in front
// of it stays shared.
#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "core/assert.h"
#include "engine/llm/model.h"

namespace lares::llm {
namespace {

llama_seq_id native(SeqId seq) {
  return static_cast<llama_seq_id>(seq.value);
}

llama_pos position(std::uint32_t tokens) {
  return static_cast<llama_pos>(tokens);
}

}  // namespace

Result<engine::Saved> Model::save(const engine::Save& save) {
  const Sequence* sequence = find(save.seq);
  if (sequence == nullptr) {
    return fail(Code::NotFound, fmt::format("sequence {} is not open", save.seq.value));
  }
  if (states_.contains(save.state)) {
    return fail(Code::Conflict, fmt::format("state {} is in use", save.state.value));
  }
  const std::uint64_t end = std::uint64_t{save.from} + save.tokens;
  if (save.tokens == 0 || end > sequence->computed) {
    return fail(Code::Invalid, fmt::format("sequence {} holds {} tokens, not those from {} to {}",
                                           save.seq.value, sequence->computed, save.from, end));
  }
  const bool whole = save.from == 0 && end == sequence->computed;
  if (!whole && !loaded_.info.can.cut_anywhere) {
    return fail(Code::Unsupported, "this model's memory can only be copied whole");
  }
  llama_memory_t memory = llama_get_memory(context_.get());
  const SeqId source = whole ? save.seq : scratch();
  if (!whole) {
    llama_memory_seq_cp(memory, native(save.seq), native(source), position(save.from),
                        static_cast<llama_pos>(end));
  }
  State state;
  Error error{Code::Io, fmt::format("sequence {} could not be copied", save.seq.value)};
  try {
    state.bytes.resize(llama_state_seq_get_size(context_.get(), native(source)));
    state.bytes.resize(llama_state_seq_get_data(context_.get(), state.bytes.data(),
                                                state.bytes.size(), native(source)));
    state.tokens.assign(sequence->tokens.begin(),
                        sequence->tokens.begin() + static_cast<std::ptrdiff_t>(end));
  } catch (const std::bad_alloc&) {
    state.bytes.clear();
    error = {Code::TooLarge, "the host has no memory left for it"};
  }
  if (!whole) llama_memory_seq_rm(memory, native(source), -1, -1);
  if (state.bytes.empty()) return tl::unexpected(std::move(error));
  state.from = save.from;
  const Bytes bytes{static_cast<std::int64_t>(state.bytes.size())};
  states_.emplace(save.state, std::move(state));
  return engine::Saved{.model = save.model, .state = save.state, .bytes = bytes};
}

Result<> Model::restore(const engine::Restore& restore) {
  Sequence* sequence = find(restore.seq);
  const auto found = states_.find(restore.state);
  if (sequence == nullptr || found == states_.end()) {
    return fail(Code::NotFound, fmt::format("there is no sequence {}, or no state {}",
                                            restore.seq.value, restore.state.value));
  }
  const State& state = found->second;
  const auto tokens = static_cast<std::uint32_t>(state.tokens.size()) - state.from;
  if (sequence->computed != state.from || restore.end <= state.from ||
      restore.end > state.tokens.size() || restore.end >= sequence->tokens.size() ||
      !std::equal(state.tokens.begin(), state.tokens.begin() + restore.end,
                  sequence->tokens.begin())) {
    return fail(
        Code::Invalid,
        fmt::format("state {} does not hold the tokens {} to {} of sequence {}",
                    restore.state.value, sequence->computed, restore.end, restore.seq.value));
  }
  if (restore.end < state.tokens.size() && !loaded_.info.can.cut_anywhere) {
    return fail(Code::Unsupported, "this model's memory can only be put back whole");
  }
  const bool whole = state.from == 0 && restore.end == state.tokens.size();
  llama_memory_t memory = llama_get_memory(context_.get());
  const SeqId target = whole ? restore.seq : scratch();
  const std::size_t read = llama_state_seq_set_data(context_.get(), state.bytes.data(),
                                                    state.bytes.size(), native(target));
  if (read == 0) {
    llama_memory_seq_rm(memory, native(target), -1, -1);
    return fail(Code::Busy,
                fmt::format("no room to bring {} tokens back: {} of {} cells are in use", tokens,
                            cells_.used(), loaded_.pool_tokens));
  }
  cells_.begin(tokens);
  for (std::uint32_t i = 0; i < tokens; ++i) cells_.take(target);
  if (!whole) {
    llama_memory_seq_cp(memory, native(target), native(restore.seq), position(state.from),
                        position(restore.end));
    cells_.share(target, restore.seq, restore.end - state.from);
    llama_memory_seq_rm(memory, native(target), -1, -1);
    cells_.drop(target);
  }
  sequence->computed = restore.end;
  return {};
}

Bytes Model::host_saved() const {
  Bytes total;
  for (const auto& [id, state] : states_) {
    total += Bytes{static_cast<std::int64_t>(state.bytes.size())};
  }
  return total;
}

}  // namespace lares::llm
