// The part of the parser that reads what stands inside of a line: flows, stages, values, types.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "sketch/lexer.h"
#include "sketch/signature.h"
#include "sketch/tree.h"

namespace lares::sketch {

template <class T = void>
using Maybe = tl::expected<T, Problem>;

// Walks over tokens with one token of look-ahead. Recursion is bounded by limits.depth.
class ValueParser {
 public:
  ValueParser(std::vector<Token> tokens, const Limits& limits);

  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const;
  Token take();  // At the end it stays there.
  // To the next line. False if the lexer had a problem with the one that is left.
  bool skip_line();
  [[nodiscard]] bool is_word(std::string_view word) const;
  // What the token looks like in the text, for messages.
  static std::string raw(const Token& token);

  // One more node at `place`. Fails with L2.
  Maybe<> count(Place place);
  Maybe<> expect(Token::Kind kind, std::string_view what);
  Maybe<std::uint32_t> whole(std::string_view what);
  void bound(std::string name) { bound_.insert(std::move(name)); }

  Maybe<TypeNote> type();
  // Until something that is no part of it: also before `| out`.
  Maybe<Flow> flow();
  Maybe<Value> value();
  // `key value` pairs of `out`, to the end of the line.
  Maybe<std::vector<Argument>> keyed(std::span<const KeySpec> keys, std::string_view owner);

 private:
  Maybe<Value> bracketed();
  Maybe<Value> list();
  Maybe<Stage> stage();
  Maybe<> argument(const StageSpec& spec, Stage& stage);
  Maybe<Argument> key_value(const KeySpec& key, const std::vector<Argument>& before);
  Maybe<> positional(const StageSpec& spec, const Stage& stage, const Value& value);
  Maybe<> type_details(TypeNote& type);
  [[nodiscard]] bool at_argument() const;

  std::vector<Token> tokens_;
  const Limits& limits_;
  std::set<std::string, std::less<>> bound_;  // Names so far: for messages only.
  std::size_t at_ = 0;
  std::uint32_t nodes_ = 0;
  std::uint32_t depth_ = 0;
};

}  // namespace lares::sketch
