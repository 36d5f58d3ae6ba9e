#include "engine/llm/grammar.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace lares::llm {
namespace {

// How much of the text's end is searched for triggers: longer than any template's.
constexpr std::size_t kWindow = 512;

// With more tokens than this asked about at once, those are ruled out first that begin with a byte
// that may not come.
constexpr std::size_t kManyTokens = 8192;

// Where the grammar begins in a match: at its first group that holds something (llama.cpp's rule).
std::size_t begin_of(const std::smatch& match) {
  for (std::size_t i = 1; i < match.size(); ++i) {
    if (match.length(i) > 0) return static_cast<std::size_t>(match.position(i));
  }
  return static_cast<std::size_t>(match.position(0));
}

}  // namespace

Result<std::unique_ptr<Grammar>> Grammar::create(const llama_vocab* vocab, Constraint constraint,
                                                 std::span<const std::int32_t> made,
                                                 const TokenIndex* index) {
  std::unique_ptr<Grammar> grammar(new Grammar(vocab, std::move(constraint), index));
  TRY_VOID(grammar->begin());
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (grammar->accept(made[i])) continue;
    return fail(Code::Invalid, fmt::format("the output does not follow its grammar at {}", i));
  }
  return grammar;
}

Result<> Grammar::begin() {
  thinking_ = constraint_.thinking;
  if (!constraint_.lazy) {
    sampler_.reset(llama_sampler_init_grammar(vocab_, constraint_.grammar.c_str(), "root"));
    if (!sampler_) return fail(Code::Invalid, "the grammar cannot be read");
    for (const std::int32_t token : constraint_.prefill) {
      if (!feed(token)) {
        return fail(Code::Invalid, "the grammar does not begin with what the prompt ends with");
      }
    }
    return {};
  }
  try {
    for (const std::string& pattern : constraint_.trigger_patterns) {
      patterns_.emplace_back(pattern);
    }
  } catch (const std::regex_error& error) {
    return fail(Code::Invalid,
                fmt::format("a trigger of the grammar is no pattern: {}", error.what()));
  }
  return {};
}

void Grammar::keep_allowed(std::vector<std::int32_t>& tokens) {
  if (dead_) return tokens.clear();
  if (!sampler_) return;
  if (index_ != nullptr && tokens.size() > kManyTokens) rule_out(tokens);
  ask(tokens);
}

// A grammar goes letter by letter, so what may not begin with a byte may not be that byte either.
void Grammar::rule_out(std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> singles;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::int32_t token = index_->single(static_cast<std::uint8_t>(byte));
    if (token >= 0) singles.push_back(token);
  }
  std::array<bool, 257> possible{};
  possible.fill(true);
  for (const std::int32_t token : singles) possible[index_->first(token)] = false;
  ask(singles);
  for (const std::int32_t token : singles) possible[index_->first(token)] = true;
  std::erase_if(tokens, [&](std::int32_t token) { return !possible[index_->first(token)]; });
}

void Grammar::ask(std::vector<std::int32_t>& tokens) {
  scratch_.clear();
  for (const std::int32_t token : tokens) scratch_.push_back({token, 1.0F, 0.0F});
  llama_token_data_array all{scratch_.data(), scratch_.size(), -1, false};
  llama_sampler_apply(sampler_.get(), &all);
  tokens.clear();
  for (std::size_t i = 0; i < all.size; ++i) {
    if (!std::isinf(all.data[i].logit)) tokens.push_back(all.data[i].id);
  }
}

bool Grammar::feed(std::int32_t token) {
  try {
    llama_sampler_accept(sampler_.get(), token);
    return true;
  } catch (const std::exception&) {
    dead_ = true;
    return false;
  }
}

bool Grammar::accept(std::int32_t token) {
  if (dead_) return false;
  if (sampler_) return feed(token);
  wait(token);
  return !dead_;
}

void Grammar::wait(std::int32_t token) {
  Piece piece{token, piece_of(vocab_, token)};
  const std::size_t fresh = piece.text.size();
  window_ += piece.text;
  recent_.push_back(std::move(piece));
  while (window_.size() > kWindow && recent_.size() > 1) {
    window_.erase(0, recent_.front().text.size());
    recent_.pop_front();
    whole_ = false;
  }
  if (!still_thinking(fresh)) look_for_trigger(fresh);
}

// Whether the text's end is inside a thought; `fresh` bytes of it are new.
bool Grammar::still_thinking(std::size_t fresh) {
  const auto is_new = [&](const std::string& mark) {
    if (mark.empty()) return false;
    const std::size_t reach = fresh + mark.size() - 1;
    return window_.find(mark, window_.size() - std::min(reach, window_.size())) !=
           std::string::npos;
  };
  if (!thinking_) {
    thinking_ = is_new(constraint_.think_begin);
    return thinking_;
  }
  thinking_ = std::none_of(constraint_.think_ends.begin(), constraint_.think_ends.end(), is_new);
  if (!thinking_) {  // What was thought triggers nothing afterwards either.
    recent_.erase(recent_.begin(), recent_.end() - 1);
    window_ = recent_.back().text;
    whole_ = false;
  }
  return thinking_;
}

void Grammar::look_for_trigger(std::size_t fresh) {
  std::size_t at = std::string::npos;
  for (const std::string& word : constraint_.trigger_words) {
    const std::size_t reach = std::min(fresh + word.size() - 1, window_.size());
    at = std::min(at, window_.find(word, window_.size() - reach));
  }
  for (std::size_t i = 0; i < patterns_.size() && at == std::string::npos; ++i) {
    const std::string& pattern = constraint_.trigger_patterns[i];
    // "^" means the beginning of the answer, not of the window.
    if (pattern.starts_with('^') && !whole_) continue;
    std::smatch match;
    if (std::regex_search(window_, match, patterns_[i])) at = begin_of(match);
  }
  if (at != std::string::npos) trigger(at);
}

// The library cuts the first token where the trigger begins inside of it, which its own lazy
// sampler alone can do: it is given the tokens that overlap, and a pattern that finds the place.
void Grammar::trigger(std::size_t at) {
  std::size_t start = 0;
  std::size_t first = 0;
  while (first < recent_.size() && start + recent_[first].text.size() <= at) {
    start += recent_[first++].text.size();
  }
  // Everything behind the first `at - start` bytes, whatever it is.
  const std::string pattern = fmt::format("^[\\s\\S]{{{}}}([\\s\\S]+)$", at - start);
  const char* patterns[] = {pattern.c_str()};
  std::vector<Piece> overlap(recent_.begin() + static_cast<std::ptrdiff_t>(first), recent_.end());
  recent_.clear();
  window_.clear();
  sampler_.reset(llama_sampler_init_grammar_lazy_patterns(vocab_, constraint_.grammar.c_str(),
                                                          "root", patterns, 1, nullptr, 0));
  if (!sampler_) {
    dead_ = true;
    return;
  }
  for (const Piece& piece : overlap) {
    if (!feed(piece.token)) return;
  }
}

}  // namespace lares::llm
