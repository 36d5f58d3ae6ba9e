#include "server/answer_parts.h"

#include <string_view>

#include "core/hash.h"

namespace lares::server {
namespace {

// What `now` has beyond `told`, which grows by it.
std::string growth(std::string& told, const std::string& now) {
  if (now.size() <= told.size() || !now.starts_with(told)) return "";
  std::string fresh = now.substr(told.size());
  told = now;
  return fresh;
}

}  // namespace

std::string call_id(std::uint64_t seed, std::uint32_t index) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::uint64_t bits = hash_combine(seed, index);
  std::string id;
  for (int i = 0; i < 9; ++i) {
    id += kLetters[bits % kLetters.size()];
    bits /= kLetters.size();
  }
  return id;
}

void AnswerParts::advance(const text::ParsedChat& parsed, bool whole, std::uint64_t seed,
                          TextDelta& out) {
  out.reasoning += growth(reasoning_, parsed.reasoning);
  out.text += growth(content_, parsed.content);
  for (std::uint32_t i = 0; i < parsed.calls.size(); ++i) {
    const text::ToolCall& call = parsed.calls[i];
    const bool known = i < calls_.size();
    // A name may still grow until its arguments begin; clients take it as it comes first.
    const bool named = whole || !call.arguments.empty() || i + 1 < parsed.calls.size();
    if (!known && (!named || call.name.empty())) break;
    CallDelta delta{.index = i};
    if (!known) {
      delta.id = call.id.empty() ? call_id(seed, i) : call.id;
      delta.name = call.name;
      calls_.emplace_back();
    }
    delta.arguments = growth(calls_[i], call.arguments);
    if (!known || !delta.arguments.empty()) out.calls.push_back(std::move(delta));
  }
}

}  // namespace lares::server
