// A vocabulary by the first byte of each token's text: what narrows a search through all of it.
//
// Const after construction; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <llama.h>

namespace lares::llm {

class TokenIndex {
 public:
  explicit TokenIndex(const llama_vocab* vocab);

  // The token that is this byte and nothing else; -1: there is none.
  [[nodiscard]] std::int32_t single(std::uint8_t byte) const { return singles_[byte]; }
  // The byte that the token begins with; 256: it has no text, or ends a generation.
  [[nodiscard]] std::uint16_t first(std::int32_t token) const {
    return firsts_[static_cast<std::size_t>(token)];
  }

 private:
  std::array<std::int32_t, 256> singles_{};
  std::vector<std::uint16_t> firsts_;
};

// The token's text, control tokens included.
std::string piece_of(const llama_vocab* vocab, std::int32_t token);

}  // namespace lares::llm
