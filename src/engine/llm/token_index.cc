#include "engine/llm/token_index.h"

#include <algorithm>

namespace lares::llm {

TokenIndex::TokenIndex(const llama_vocab* vocab) {
  singles_.fill(-1);
  const std::int32_t size = llama_vocab_n_tokens(vocab);
  firsts_.reserve(static_cast<std::size_t>(size));
  for (std::int32_t token = 0; token < size; ++token) {
    const std::string text = piece_of(vocab, token);
    if (text.empty() || llama_vocab_is_eog(vocab, token)) {
      firsts_.push_back(256);
      continue;
    }
    const auto first = static_cast<std::uint8_t>(text.front());
    firsts_.push_back(first);
    if (text.size() == 1) singles_[first] = token;
  }
}

std::string piece_of(const llama_vocab* vocab, std::int32_t token) {
  std::string text(64, '\0');
  auto size = llama_token_to_piece(vocab, token, text.data(), 64, 0, true);
  if (size < 0) {
    text.resize(static_cast<std::size_t>(-size));
    size = llama_token_to_piece(vocab, token, text.data(), -size, 0, true);
  }
  text.resize(static_cast<std::size_t>(std::max(size, 0)));
  return text;
}

}  // namespace lares::llm
