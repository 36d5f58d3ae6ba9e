// From tokens to the text a client may see: pieces, whole code points, stop strings.
//
// Pure; owned by the loop thread. The pieces come from the text worker once a model (Vocabulary),
// so a stream needs nobody else to turn tokens into text, and goes on while a text worker restarts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/generation.h"
#include "text/text_engine.h"

namespace lares::server {

// A model's tokens as bytes.
class PieceTable {
 public:
  PieceTable() = default;
  // Errors: Corrupt, if offsets and bytes do not agree.
  static Result<PieceTable> create(text::Vocabulary vocabulary);

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(flags_.size()); }
  [[nodiscard]] bool has(std::int32_t token) const {
    return token >= 0 && static_cast<std::uint32_t>(token) < size();
  }
  // REQUIRES: has(token).
  [[nodiscard]] std::string_view piece(std::int32_t token) const;
  [[nodiscard]] bool ends_generation(std::int32_t token) const;

 private:
  std::vector<std::uint32_t> offsets_;
  std::string bytes_;
  std::vector<std::uint8_t> flags_;
};

// The text of one choice as it grows. What might still become a stop string, or is half a code
// point, is held back; a stop string itself is never given out.
class TextAssembler {
 public:
  explicit TextAssembler(std::vector<std::string> stops);

  // Adds a token's bytes. True when that completed a stop string: the text has ended.
  bool push(std::string_view piece, const TokenLogprob* logprob);
  // Nothing more comes: what was held back is given out.
  void finish();
  // Text ready since the last call, and the logprobs of the tokens that it completes.
  TextDelta take();
  [[nodiscard]] bool has_output() const { return !ready_.empty() || !ready_logprobs_.empty(); }

 private:
  struct PendingLogprob {
    std::uint64_t end;  // Offset in the whole text behind the token's last byte.
    TokenLogprob value;
  };
  void give_out(std::size_t bytes);
  [[nodiscard]] std::size_t held_back() const;

  std::vector<std::string> stops_;
  std::size_t longest_stop_ = 0;
  std::string pending_;      // Not given out yet.
  std::uint64_t given_ = 0;  // Bytes given out before.
  std::string ready_;
  std::vector<PendingLogprob> pending_logprobs_;
  std::vector<TokenLogprob> ready_logprobs_;
};

}  // namespace lares::server
