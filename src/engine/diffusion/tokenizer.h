// CLIP's byte-level BPE tokenizer, from a model folder's vocab.json and merges.txt.
//
// Text becomes NFC, lower case, with white space collapsed; words are letters, single digits, or
// runs of other signs; each word's UTF-8 bytes, spelled as printable letters, are merged in the
// order of merges.txt, the last one carrying "</w>" (Radford et al. 2021; Sennrich et al. 2016).
// A prompt is cut at length - 2 tokens and padded.
//
// Immutable after creation; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "engine/diffusion/config.h"

namespace lares::diffusion {

// Longest prompt, in bytes: far more than the 77 tokens that a text encoder of this family sees.
inline constexpr std::size_t kPromptMax = 16384;

class Tokenizer {
 public:
  // `vocabulary` is how many ids the text encoder knows. Errors: NotFound, Io, Invalid, TooLarge.
  static Result<Tokenizer> open(const std::string& folder, const TokenizerConfig& config,
                                std::uint32_t vocabulary);

  // `length()` ids: begin, the words, end, padding. Errors: TooLarge.
  [[nodiscard]] Result<std::vector<std::int32_t>> encode(std::string_view text) const;
  [[nodiscard]] std::uint32_t length() const { return length_; }

 private:
  void append_word(std::u32string_view word, std::vector<std::int32_t>& ids) const;

  std::unordered_map<std::string, std::int32_t> vocabulary_;
  std::unordered_map<std::string, std::int32_t> ranks_;  // "left right" -> order of merging.
  std::string spelling_[256];                            // Of each byte.
  std::string begin_word_, end_word_;
  std::int32_t begin_ = 0, end_ = 0, pad_ = 0;
  std::uint32_t length_ = 0;
};

}  // namespace lares::diffusion
