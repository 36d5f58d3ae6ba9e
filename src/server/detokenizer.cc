#include "server/detokenizer.h"

#include <algorithm>

#include "core/assert.h"
#include "core/text.h"

namespace lares::server {

Result<PieceTable> PieceTable::create(text::Vocabulary vocabulary) {
  const auto& offsets = vocabulary.offsets;
  const bool whole = offsets.size() == vocabulary.flags.size() + 1 && offsets.front() == 0 &&
                     offsets.back() == vocabulary.bytes.size() && std::ranges::is_sorted(offsets);
  if (!whole) return fail(Code::Corrupt, "the vocabulary's pieces do not add up");
  PieceTable table;
  table.offsets_ = std::move(vocabulary.offsets);
  table.bytes_ = std::move(vocabulary.bytes);
  table.flags_ = std::move(vocabulary.flags);
  return table;
}

std::string_view PieceTable::piece(std::int32_t token) const {
  LARES_ASSERT(has(token), "token {} of {}", token, size());
  const auto i = static_cast<std::size_t>(token);
  return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

bool PieceTable::ends_generation(std::int32_t token) const {
  return (flags_[static_cast<std::size_t>(token)] & text::kTokenEndOfGeneration) != 0;
}

TextAssembler::TextAssembler(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  for (const std::string& stop : stops_) longest_stop_ = std::max(longest_stop_, stop.size());
}

bool TextAssembler::push(std::string_view piece, const TokenLogprob* logprob) {
  // A stop string that is new here ends in the new bytes.
  const std::size_t reach = longest_stop_ > 0 ? longest_stop_ - 1 : 0;
  const std::size_t from = pending_.size() > reach ? pending_.size() - reach : 0;
  pending_ += piece;
  if (logprob != nullptr) pending_logprobs_.push_back({given_ + pending_.size(), *logprob});
  std::size_t found = std::string::npos;
  for (const std::string& stop : stops_) found = std::min(found, pending_.find(stop, from));
  if (found != std::string::npos) {
    give_out(found);
    pending_.clear();
    return true;
  }
  give_out(pending_.size() - held_back());
  return false;
}

std::size_t TextAssembler::held_back() const {
  std::size_t held = pending_.size() - utf8_complete_prefix(pending_);
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > held; --length) {
      if (pending_.ends_with(std::string_view(stop).substr(0, length))) held = length;
    }
  }
  return held;
}

void TextAssembler::give_out(std::size_t bytes) {
  const std::string_view text = std::string_view(pending_).substr(0, bytes);
  if (is_utf8(text)) {
    ready_ += text;
  } else {
    ready_ += utf8_sanitised(text);
  }
  pending_.erase(0, bytes);
  given_ += bytes;
  const auto whole =
      std::ranges::find_if(pending_logprobs_, [&](const auto& p) { return p.end > given_; });
  for (auto it = pending_logprobs_.begin(); it != whole; ++it) {
    ready_logprobs_.push_back(std::move(it->value));
  }
  pending_logprobs_.erase(pending_logprobs_.begin(), whole);
}

void TextAssembler::finish() {
  give_out(pending_.size());
}

TextDelta TextAssembler::take() {
  TextDelta delta;
  delta.text.swap(ready_);
  delta.logprobs.swap(ready_logprobs_);
  return delta;
}

}  // namespace lares::server
