#include "sketch/parser_values.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/result.h"
#include "core/text.h"

namespace lares::sketch {
namespace {

using Kind = Token::Kind;
using Missing = tl::unexpected<Problem>;

Missing syntax(Place place, std::string message) {
  return Missing({Check::L1, place, std::move(message)});
}

bool is_whole(const Value& value) {
  return value.kind == Value::Kind::Number && value.number.unit == Unit::None &&
         value.number.value.is_whole();
}

bool fits_number(const Value& value, std::uint32_t takes) {
  if (value.kind == Value::Kind::Size) return (takes & kSize) != 0;
  if (value.kind != Value::Kind::Number) return false;
  const Number& number = value.number;
  if (number.unit == Unit::Factor) return (takes & kFactor) != 0;
  if (number.is_time()) return (takes & kTime) != 0 && nanoseconds(number).has_value();
  if (!number.value.in_millionths() && (takes & kNumeral) != 0) return false;
  return (takes & kNumeral) != 0 || ((takes & kWhole) != 0 && is_whole(value));
}

bool fits(const Value& value, const KeySpec& key) {
  switch (value.kind) {
    case Value::Kind::Number:
    case Value::Kind::Size: return fits_number(value, key.takes);
    case Value::Kind::Text: return (key.takes & (kWords | kSchema | kModel)) != 0;
    case Value::Kind::Flow: return (key.takes & (kWords | kSchema)) != 0;
    case Value::Kind::Word:
      if ((key.takes & (kWords | kSchema)) != 0) return true;
      return (key.takes & kChoice) != 0 &&
             std::ranges::find(key.choices, value.text) != key.choices.end();
    case Value::Kind::List:
      return (key.takes & kWholes) != 0 && std::ranges::all_of(value.items, is_whole);
    case Value::Kind::Handle: return false;
  }
  return false;
}

bool is_number(const Value& value) {
  return value.kind == Value::Kind::Number || value.kind == Value::Kind::Size;
}

}  // namespace

ValueParser::ValueParser(std::vector<Token> tokens, const Limits& limits)
    : tokens_(std::move(tokens)), limits_(limits) {
  LARES_ASSERT(!tokens_.empty() && tokens_.back().kind == Kind::End, "{} tokens", tokens_.size());
}

const Token& ValueParser::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token ValueParser::take() {
  Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ValueParser::skip_line() {
  while (peek().kind != Kind::LineEnd && peek().kind != Kind::End) ++at_;
  const bool broken = peek().broken;
  if (peek().kind == Kind::LineEnd) ++at_;
  depth_ = 0;
  return !broken;
}

bool ValueParser::is_word(std::string_view word) const {
  return peek().kind == Kind::Word && peek().text == word;
}

std::string ValueParser::raw(const Token& token) {
  std::string text = described(token);
  std::erase(text, '`');
  return text;
}

Maybe<> ValueParser::count(Place place) {
  if (++nodes_ <= limits_.nodes) return {};
  return Missing(
      {Check::L2, place,
       fmt::format("more than {} lines, stages and values; split the sketch", limits_.nodes)});
}

Maybe<> ValueParser::expect(Token::Kind kind, std::string_view what) {
  if (peek().kind != kind) {
    return syntax(peek().place, fmt::format("expected {}, not {}", what, described(peek())));
  }
  take();
  return {};
}

Maybe<std::uint32_t> ValueParser::whole(std::string_view what) {
  const Token& token = peek();
  const Decimal& number = token.number.value;
  if (token.kind != Kind::Number || token.number.unit != Unit::None || !number.is_whole() ||
      number.units > 999999999) {
    return syntax(token.place, fmt::format("expected {}, not {}", what, described(token)));
  }
  return static_cast<std::uint32_t>(take().number.value.units);
}

Maybe<TypeNote> ValueParser::type() {
  TypeNote type;
  type.place = peek().place;
  TRY_VOID(count(type.place));
  while (peek().kind == Kind::OpenList) {
    if (++type.lists > 1) return syntax(peek().place, "there are no lists of lists");
    take();
  }
  const Token kind = peek();
  if (kind.kind != Kind::Word || std::ranges::find(type_names(), kind.text) == type_names().end()) {
    return syntax(kind.place, fmt::format("expected a type, {}, not {}{}",
                                          one_of({type_names().begin(), type_names().end()}),
                                          described(kind), hint(kind.text, type_names())));
  }
  type.kind = take().text;
  TRY_VOID(type_details(type));
  if (type.lists > 0) TRY_VOID(expect(Kind::CloseList, "`]`"));
  return type;
}

Maybe<> ValueParser::type_details(TypeNote& type) {
  const bool named = type.kind == "Cond" || type.kind == "Latent" || type.kind == "Embedding";
  const bool sized = type.kind == "Cond" || type.kind == "Latent" || type.kind == "Pixels";
  const bool typed = type.kind == "Cond" || type.kind == "Latent";
  const auto is_dtype = [this] {
    return peek().kind == Kind::Word && std::ranges::find(dtypes(), peek().text) != dtypes().end();
  };
  const bool name_here =
      peek().kind == Kind::Text || (peek().kind == Kind::Word && reserved_as(peek().text).empty());
  if (named && name_here && !is_dtype()) type.what = take().text;
  if (sized && peek().kind == Kind::Size) type.size = take().size;
  if ((type.kind == "Audio" || type.kind == "Embedding") && peek().kind == Kind::Number) {
    type.count = TRY(whole("a whole number"));
  }
  if (typed && is_dtype()) type.dtype = take().text;
  if (type.kind != "Latent") return {};
  if (is_word("clean")) {
    take();
    type.clean = true;
  } else if (is_word("at")) {
    take();
    if (peek().kind != Kind::Fraction) {
      return syntax(peek().place,
                    fmt::format("expected steps done and steps in all, as in `at 8/20`, not {}",
                                described(peek())));
    }
    type.at = take().size;
  }
  return {};
}

Maybe<Flow> ValueParser::flow() {
  Flow flow;
  const Token first = peek();
  if (first.kind == Kind::Word && find_stage(first.text) != nullptr) {
    flow.stages.push_back(TRY(stage()));
  } else {
    Value source = TRY(value());
    if (source.kind == Value::Kind::Flow) {
      flow = std::move(source.flow.front());
    } else if (is_number(source) || source.kind == Value::Kind::List) {
      return syntax(first.place, fmt::format("a flow begins with a text, a name, `lat:ID`, a stage "
                                             "or brackets, not with {}",
                                             described(first)));
    } else {
      flow.source = std::move(source);
    }
  }
  while (peek().kind == Kind::Bar) {
    if (peek(1).kind == Kind::Word && peek(1).text == "out") break;
    take();
    flow.stages.push_back(TRY(stage()));
  }
  return flow;
}

Maybe<Stage> ValueParser::stage() {
  const Token token = peek();
  const StageSpec* spec = token.kind == Kind::Word ? find_stage(token.text) : nullptr;
  if (spec == nullptr) {
    const auto names = names_of(stages());
    if (token.kind != Kind::Word) {
      return syntax(token.place, fmt::format("expected a stage after `|`, not {}; there are {}",
                                             described(token), one_of(names)));
    }
    const std::string near = hint(token.text, names);
    return syntax(token.place,
                  fmt::format("there is no stage `{}`{}", token.text,
                              near.empty() ? fmt::format("; there are {}", one_of(names)) : near));
  }
  take();
  TRY_VOID(count(token.place));
  Stage stage{.name = token.text, .place = token.place, .arguments = {}};
  while (at_argument()) TRY_VOID(argument(*spec, stage));
  return stage;
}

bool ValueParser::at_argument() const {
  switch (peek().kind) {
    case Kind::Word:
    case Kind::Text:
    case Kind::Number:
    case Kind::Size:
    case Kind::Handle:
    case Kind::Open:
    case Kind::OpenList: return true;
    default: return false;
  }
}

Maybe<> ValueParser::argument(const StageSpec& spec, Stage& stage) {
  const Token token = peek();
  if (token.kind == Kind::Word) {
    if (const KeySpec* key = find_key(spec.keys, token.text)) {
      stage.arguments.push_back(TRY(key_value(*key, stage.arguments)));
      return {};
    }
    const std::string_view as = reserved_as(token.text);
    if (find_stage(token.text) != nullptr) {
      return syntax(token.place,
                    fmt::format("a stage inside of `{}` stands in brackets: `({} ...)`", spec.name,
                                token.text));
    }
    if (!as.empty()) {
      const bool ends = depth_ > 0 && find_medium(token.text) != nullptr;
      return syntax(token.place,
                    fmt::format("`{}` is {} and cannot stand in `{}`{}", token.text, as, spec.name,
                                ends ? "; is a `)` missing before it?"
                                     : hint(token.text, names_of(spec.keys))));
    }
  }
  Value read = TRY(value());
  TRY_VOID(positional(spec, stage, read));
  stage.arguments.push_back({.key = {}, .place = token.place, .value = std::move(read)});
  return {};
}

Maybe<Argument> ValueParser::key_value(const KeySpec& key, const std::vector<Argument>& before) {
  const Token token = take();
  if (std::ranges::find(before, key.name, &Argument::key) != before.end()) {
    return syntax(token.place, fmt::format("`{}` is said twice", key.name));
  }
  if (!at_argument()) {
    return syntax(peek().place, fmt::format("expected {} after `{}`, not {}", key.wants, key.name,
                                            described(peek())));
  }
  const Token first = peek();
  Value read = TRY(value());
  if (!fits(read, key)) {
    const std::string near =
        first.kind == Kind::Word ? hint(first.text, key.choices) : std::string();
    const bool list = first.kind == Kind::OpenList || first.kind == Kind::Open;
    return syntax(first.place, fmt::format("`{}` wants {}, not {}{}", key.name, key.wants,
                                           list ? "this" : described(first), near));
  }
  return Argument{.key = std::string(key.name), .place = token.place, .value = std::move(read)};
}

// A number that has no place here is often the value of a misspelt key before it.
Maybe<> ValueParser::positional(const StageSpec& spec, const Stage& stage, const Value& value) {
  if (!is_number(value)) return {};
  const std::vector<Argument>& before = stage.arguments;
  const bool again = std::ranges::any_of(
      before, [](const Argument& a) { return a.key.empty() && is_number(a.value); });
  if (!again && fits_number(value, spec.number)) return {};
  if (!before.empty() && before.back().key.empty() &&
      before.back().value.kind == Value::Kind::Word && !bound_.contains(before.back().value.text)) {
    const std::string& word = before.back().value.text;
    const std::string near = hint(word, names_of(spec.keys));
    if (!near.empty()) {
      return syntax(before.back().place,
                    fmt::format("`{}` has no key `{}`{}", spec.name, word, near));
    }
  }
  if (again) {
    return syntax(value.place,
                  fmt::format("`{}` takes one number by its place, and has it", spec.name));
  }
  if (spec.number == kNothing) {
    return syntax(value.place, fmt::format("`{}` takes no number by its place", spec.name));
  }
  const std::string text =
      value.kind == Value::Kind::Size ? value.size.text() : value.number.text();
  return syntax(value.place,
                fmt::format("`{}` wants {}, not `{}`", spec.name, spec.number_wants, text));
}

Maybe<std::vector<Argument>> ValueParser::keyed(std::span<const KeySpec> keys,
                                                std::string_view owner) {
  std::vector<Argument> arguments;
  while (peek().kind != Kind::LineEnd && peek().kind != Kind::End) {
    const Token& token = peek();
    const KeySpec* key = token.kind == Kind::Word ? find_key(keys, token.text) : nullptr;
    if (key == nullptr) {
      const auto names = names_of(keys);
      return syntax(token.place,
                    fmt::format("`{}` takes {}, not {}{}", owner,
                                names.empty() ? std::string("nothing more") : one_of(names),
                                described(token), hint(token.text, names)));
    }
    arguments.push_back(TRY(key_value(*key, arguments)));
  }
  return arguments;
}

Maybe<Value> ValueParser::value() {
  const Token token = peek();
  TRY_VOID(count(token.place));
  switch (token.kind) {
    case Kind::Word: take(); return Value::word(token.text, token.place);
    case Kind::Text: take(); return Value::quoted(token.text, token.place);
    case Kind::Number: take(); return Value::of(token.number, token.place);
    case Kind::Size: take(); return Value::of(token.size, token.place);
    case Kind::Handle: take(); return Value::handle(token.text, token.place);
    case Kind::Open:
    case Kind::OpenList: break;
    default:
      return syntax(token.place, fmt::format("expected a value: a text, a name, a number or "
                                             "something in brackets, not {}",
                                             described(token)));
  }
  if (++depth_ > limits_.depth) {
    return Missing({Check::L2, token.place,
                    fmt::format("more than {} brackets within each other", limits_.depth)});
  }
  Maybe<Value> read = token.kind == Kind::Open ? bracketed() : list();
  if (read) --depth_;
  return read;
}

Maybe<Value> ValueParser::bracketed() {
  const Token open = take();
  Flow inner = TRY(flow());
  if (peek().kind != Kind::Close) {
    if (peek().kind == Kind::Bar) {
      return syntax(peek(1).place, "`out` ends a line; it cannot stand in brackets");
    }
    return syntax(peek().place,
                  fmt::format("expected `)` for the `(` of line {}, column {}, not {}",
                              open.place.line, open.place.column, described(peek())));
  }
  take();
  if (inner.stages.empty()) return std::move(*inner.source);
  return Value::of(std::move(inner), open.place);
}

Maybe<Value> ValueParser::list() {
  const Token open = take();
  std::vector<Value> items;
  while (peek().kind != Kind::CloseList) {
    if (peek().kind == Kind::OpenList) {
      return syntax(peek().place, "there are no lists of lists");
    }
    if (!at_argument()) {
      return syntax(peek().place,
                    fmt::format("expected `]` for the `[` of line {}, column {}, not {}",
                                open.place.line, open.place.column, described(peek())));
    }
    items.push_back(TRY(value()));
  }
  take();
  if (items.empty()) return syntax(open.place, "an empty list");
  return Value::list(std::move(items), open.place);
}

}  // namespace lares::sketch
