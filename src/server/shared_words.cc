#include "server/shared_words.h"

#include <algorithm>
#include <vector>

namespace lares::server {
namespace {

constexpr std::size_t kBeforeMax = 256;  // Bytes that a template may write before them.

}  // namespace

std::size_t shared_tokens(std::span<const std::string> prompts, const PieceTable& pieces,
                          std::span<const std::int32_t> tokens) {
  if (prompts.empty()) return 0;
  const std::size_t longest = std::ranges::max(prompts, {}, &std::string::size).size();
  std::string text;
  std::vector<std::size_t> ends;  // In the text, of each token.
  for (const std::int32_t token : tokens) {
    if (text.size() >= kBeforeMax + longest) break;
    if (!pieces.has(token)) break;
    text += pieces.piece(token);
    ends.push_back(text.size());
  }
  std::size_t shared = 0;
  for (const std::string& words : prompts) {
    const std::size_t at = text.find(words);
    if (words.empty() || at == std::string::npos || at > kBeforeMax) continue;
    const auto after = std::ranges::upper_bound(ends, at + words.size());
    shared = std::max(shared, static_cast<std::size_t>(after - ends.begin()));
  }
  return shared;
}

}  // namespace lares::server
