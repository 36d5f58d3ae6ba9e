// How long steps take, for the scheduler's cost table (sched/cost_table.h).
#include <algorithm>
#include <array>
#include <chrono>

#include "engine/llm/model.h"

namespace lares::llm {
namespace {

Instant clock_now() {
  return Instant(std::chrono::steady_clock::now().time_since_epoch());
}

constexpr Duration kDecodesTime = std::chrono::milliseconds(600);
constexpr Duration kPromptsTime = std::chrono::milliseconds(1200);
constexpr Duration kShort = std::chrono::milliseconds(50);
constexpr std::uint32_t kDecodes = 32;
// What attending far back costs is measured behind so many tokens at least, with chunks of so many.
constexpr std::uint32_t kFar = 64, kChunk = 64;

}  // namespace

// Decodes alone and prompts alone of 1, 2, 4 ... tokens, no further than their time goes. Then the
// longest prompt's tokens stay, and a decode, a chunk and both attend to them.
void Model::measure_steps(std::uint32_t threads) {
  threads_ = threads;
  llama_set_n_threads(context_.get(), static_cast<int>(threads), static_cast<int>(threads));
  const std::uint32_t sequences = std::min({kDecodes, loaded_.sequences, outputs_});
  const Instant begin = clock_now();
  for (std::uint32_t n = 1; n <= sequences && clock_now() - begin < kDecodesTime; n *= 2) {
    if (!measure({.decodes = n})) return;
  }
  const Instant prompts = clock_now();
  std::uint32_t held = 0;
  const std::uint32_t most = std::min(batch_tokens_, loaded_.context);
  for (std::uint32_t n = 2; n <= most && clock_now() - prompts < kPromptsTime; n *= 2) {
    if (!measure({.prompt = n})) return;
    held = n;
  }
  const bool room = held + kChunk <= std::min(loaded_.context, loaded_.pool_tokens / 2);
  if (loaded_.info.can.cut_anywhere && loaded_.sequences > 1 && held >= kFar && room &&
      kChunk < batch_tokens_) {
    const std::array<engine::StepTime, 4> far_back{
        {{.decodes = 1, .position = held},
         {.prompt = kChunk / 2, .from = held},
         {.prompt = kChunk, .from = held},
         {.decodes = 1, .position = held, .prompt = kChunk}}};
    for (const engine::StepTime& step : far_back) {
      if (!measure(step)) break;
    }
  }
  llama_memory_clear(llama_get_memory(context_.get()), false);
}

// The best of two or, of short ones, four, for something else may run beside. What a prompt from
// its beginning has put into sequence 0 stays until the next.
bool Model::measure(engine::StepTime step) {
  llama_memory_t memory = llama_get_memory(context_.get());
  const bool far_back = step.position + step.from > 0;
  Duration best = Duration::max();
  for (int i = 0; i < (best < kShort ? 4 : 2); ++i) {
    if (!far_back) llama_memory_clear(memory, false);
    fill_measured(step);
    const Instant from = clock_now();
    const int status = llama_decode(context_.get(), *batch_);
    llama_synchronize(context_.get());
    const Duration took = clock_now() - from;
    if (status != 0) return false;
    best = std::min(best, took);
    if (!far_back) continue;
    const auto end = static_cast<llama_pos>(step.position + step.from);
    llama_memory_seq_rm(memory, 0, end, -1);
    llama_memory_seq_rm(memory, 1, -1, -1);
  }
  step.time = best;
  loaded_.step_times.push_back(step);
  return true;
}

void Model::fill_measured(const engine::StepTime& step) {
  batch_->n_tokens = static_cast<std::int32_t>(step.decodes + step.prompt);
  for (std::uint32_t t = 0; t < step.decodes + step.prompt; ++t) {
    const bool decode = t < step.decodes;
    const std::uint32_t of_prompt = t - step.decodes;
    batch_->token[t] = static_cast<llama_token>(t);
    batch_->pos[t] = static_cast<llama_pos>(decode ? step.position : step.from + of_prompt);
    batch_->n_seq_id[t] = 1;
    batch_->seq_id[t][0] = static_cast<llama_seq_id>(decode ? t : step.decodes);
    batch_->logits[t] = decode || of_prompt + 1 == step.prompt ? 1 : 0;
  }
}

}  // namespace lares::llm
