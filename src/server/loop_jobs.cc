// Requests that are attempts of the journal's jobs: how far they have got, and how they go on; and
// where the device's time went, which the ledger is checked against.
#include <fmt/format.h>

#include "server/job_link.h"
#include "server/loop_core.h"

namespace lares::server {

std::string_view LoopCore::shown_piece(const Request& request, std::int32_t token) const {
  for (const text::ShownToken& shown : request.shown) {
    if (shown.token == token) return shown.text;
  }
  return models_[request.model].pieces->piece(token);
}

// The same name may stand for another file later, and an alias for another model.
std::string LoopCore::vocabulary_of(const Request& request) const {
  const ModelEntry& entry = models_[request.model].entry;
  return fmt::format("{}@{}", entry.name, entry.stamp);
}

// An attempt goes on from the tokens of the one before. The seed is the same, and the sampler needs
// no other state, so the text is as if nothing had been. Before the request is scheduled.
void LoopCore::resume(Request& request, std::uint32_t index) {
  const JobLink* job = request.generation.job.get();
  if (job == nullptr || index >= job->resume().tokens.size()) return;
  if (job->resume().model != vocabulary_of(request)) return;
  const std::vector<std::int32_t>& made = job->resume().tokens[index];
  // What comes with each token is not kept; and the limits may be others than they were.
  if (request.generation.sampling.want_logprob || made.size() >= request.output_max) return;
  const PieceTable& pieces = *models_[request.model].pieces;
  Choice& choice = request.choices[index];
  TextAssembler text = choice.text;
  for (const std::int32_t token : made) {
    if (!pieces.has(token) || pieces.ends_generation(token)) return;
    if (text.push(shown_piece(request, token), nullptr)) return;
  }
  choice.text = std::move(text);
  choice.tokens.insert(choice.tokens.end(), made.begin(), made.end());
  request.usage.output_tokens += static_cast<std::uint32_t>(made.size());
  request.resumed_tokens += static_cast<std::uint32_t>(made.size());
}

// At 1, 2, 4... 32, 64, 96... tokens: an attempt that was cut short soon has brought something.
void LoopCore::note_output(Request& request) const {
  if (!request.generation.job) return;
  const std::uint32_t made = request.usage.output_tokens - request.resumed_tokens;
  const bool early = made < kTokensACheckpoint && (made & (made - 1)) == 0;
  if (early || made % kTokensACheckpoint == 0) note_progress(request);
}

void LoopCore::note_progress(Request& request) const {
  JobLink* job = request.generation.job.get();
  if (job == nullptr || !request.accepted) return;
  store::Progress progress;
  progress.device = request.device;
  progress.advanced =
      request.usage.output_tokens > request.resumed_tokens || request.texts_done > 0;
  const bool resumable = !request.embeds() && !request.generation.sampling.want_logprob;
  for (std::uint32_t i = 0; resumable && i < request.choices.size(); ++i) {
    const Choice& choice = request.choices[i];
    // Of one that is done its last checkpoint stays, from which it ends once more in the same way.
    if (choice.done || choice.tokens.size() <= request.prompt_tokens) continue;
    const auto made = std::span(choice.tokens).subspan(request.prompt_tokens);
    std::string bytes = vocabulary_of(request) + '\0';
    bytes.append(reinterpret_cast<const char*>(made.data()), made.size_bytes());
    progress.seed = choice.sampling.seed;
    progress.parts.push_back({i, std::move(bytes)});
  }
  job->on_progress(std::move(progress));
}

void LoopCore::keep_totals() {
  if (!options_.keep_totals) return;
  options_.keep_totals([this] {
    Duration open{};
    for (const auto& [id, request] : requests_) open += request.device;
    for (const EndedRow& ended : ended_rows_) open += ended.row.device;
    return device_clock_.totals(now(), open);
  });
}

}  // namespace lares::server
