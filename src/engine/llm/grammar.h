// The grammar of one sequence, on llama.cpp's grammar sampler: which tokens may come next.
//
// Owned by the sequence; one thread. Everything it knows follows from the constraint and the tokens
// made so far, so that a sequence opened again goes on where it was. What the library throws is
// caught here.
//
// A lazy grammar is not fed while it waits. llama.cpp searches the whole text for its triggers at
// every token, which grows with the text; here only the end of it is searched, and the sampler is
// made when a trigger has appeared and sees the tokens from there on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include <llama-cpp.h>

#include "core/constraint.h"
#include "core/result.h"
#include "engine/llm/sampler.h"
#include "engine/llm/token_index.h"

namespace lares::llm {

class Grammar final : public TokenFilter {
 public:
  // `made` is what was generated before; `index`, of the vocabulary, outlives it. Errors: Invalid
  // (no grammar, or `made` does not follow it).
  static Result<std::unique_ptr<Grammar>> create(const llama_vocab* vocab, Constraint constraint,
                                                 std::span<const std::int32_t> made,
                                                 const TokenIndex* index = nullptr);

  [[nodiscard]] bool applies() const override { return sampler_ != nullptr || dead_; }
  void keep_allowed(std::vector<std::int32_t>& tokens) override;

  // Takes on the token that was chosen; never an end of generation. False if it does not follow the
  // grammar, which then allows nothing more.
  bool accept(std::int32_t token);

 private:
  struct Piece {
    std::int32_t token;
    std::string text;
  };
  Grammar(const llama_vocab* vocab, Constraint constraint, const TokenIndex* index)
      : vocab_(vocab), index_(index), constraint_(std::move(constraint)) {}

  Result<> begin();
  void wait(std::int32_t token);
  bool still_thinking(std::size_t fresh);
  void look_for_trigger(std::size_t fresh);
  void trigger(std::size_t at);
  bool feed(std::int32_t token);
  void ask(std::vector<std::int32_t>& tokens);
  void rule_out(std::vector<std::int32_t>& tokens);

  const llama_vocab* vocab_;
  const TokenIndex* index_;
  Constraint constraint_;
  llama_sampler_ptr sampler_;  // While the grammar applies.
  bool dead_ = false;

  // While waiting.
  std::vector<std::regex> patterns_;
  std::deque<Piece> recent_;  // The last tokens; `window_` is their text.
  std::string window_;
  bool whole_ = true;  // The window is all that was generated.
  bool thinking_ = false;

  std::vector<llama_token_data> scratch_;
};

}  // namespace lares::llm
