#include "sketch/parser.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/result.h"
#include "core/text.h"
#include "sketch/lexer.h"
#include "sketch/parser_values.h"
#include "sketch/signature.h"
#include "sketch/unicode.h"

namespace lares::sketch {
namespace {

using Kind = Token::Kind;
using Missing = tl::unexpected<Problem>;

// One line after the other; what stands in a line is the ValueParser's.
class Parser {
 public:
  Parser(Lexed lexed, const Limits& limits)
      : limits_(limits),
        problems_(std::move(lexed.problems)),
        in_(std::move(lexed.tokens), limits) {}

  Parsed run();

 private:
  using LineResult = Maybe<decltype(Line::what)>;

  Maybe<Line> line();
  LineResult what();
  LineResult use();
  LineResult input();
  LineResult bind();
  LineResult out();
  LineResult flow_line();
  LineResult keep();
  LineResult want();
  Maybe<std::string> new_name();
  Maybe<Out> medium_after(Flow flow);
  void version();

  const Limits& limits_;
  Problems problems_;
  Sketch sketch_;
  ValueParser in_;
};

Parsed Parser::run() {
  version();
  while (in_.peek().kind != Kind::End && problems_.size() < limits_.problems) {
    Maybe<Line> read = line();
    if (read) {
      sketch_.lines.push_back(std::move(*read));
      continue;
    }
    const bool large = read.error().check == Check::L2;
    // Of a line that the lexer did not understand, what follows is a consequence.
    if (in_.skip_line() || large) problems_.push_back(std::move(read.error()));
    if (large) break;
  }
  if (!sketch_.lines.empty()) sketch_.lines.front().gap = false;
  std::ranges::stable_sort(problems_, [](const Problem& a, const Problem& b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
  return {std::move(sketch_), std::move(problems_)};
}

// `sketch 1` on the first line; there is no other yet.
void Parser::version() {
  const Token& token = in_.peek();
  if (token.kind != Kind::Word || token.text != "sketch") return;
  const Token number = in_.peek(1);
  if (number.kind != Kind::Number || number.number.text() != "1") {
    problems_.push_back({Check::L1, number.place,
                         fmt::format("{} is no version of the language that is known here; this is "
                                     "`sketch 1`",
                                     described(number))});
    in_.skip_line();
    return;
  }
  in_.take();
  in_.take();
  if (in_.peek().kind == Kind::LineEnd) in_.take();
}

Maybe<Line> Parser::line() {
  Line line;
  line.place = in_.peek().place;
  line.gap = in_.peek().gap;
  TRY_VOID(in_.count(line.place));
  line.what = TRY(what());
  const Token& end = in_.peek();
  if (end.kind != Kind::LineEnd) {
    const bool closing = end.kind == Kind::Close || end.kind == Kind::CloseList;
    return Missing({Check::L1, end.place,
                    closing ? fmt::format("{} closes nothing", described(end))
                            : fmt::format("expected the end of the line, not {}", described(end))});
  }
  if (end.comment) line.comment = end.text;
  in_.take();
  return line;
}

Parser::LineResult Parser::what() {
  const Token& token = in_.peek();
  if (token.kind == Kind::Comment) return Comment{in_.take().text};
  if (token.kind == Kind::Bar) {
    return Missing({Check::L1, token.place, "there is no line before this one to continue"});
  }
  if (token.kind == Kind::Word) {
    if (token.text == "use") return use();
    if (token.text == "in") return input();
    if (token.text == "out") return out();
    if (token.text == "keep") return keep();
    if (token.text == "want") return want();
    const Kind next = in_.peek(1).kind;
    if (next == Kind::Equals || next == Kind::Colon) return bind();
  }
  return flow_line();
}

Maybe<std::string> Parser::new_name() {
  const Token token = in_.peek();
  if (token.kind != Kind::Word) {
    return Missing(
        {Check::L1, token.place, fmt::format("expected a name, not {}", described(token))});
  }
  if (const std::string_view as = reserved_as(token.text); !as.empty()) {
    return Missing(
        {Check::N3, token.place, fmt::format("`{}` is {}; choose another name", token.text, as)});
  }
  if (!is_name(token.text)) {
    return Missing(
        {Check::L1, token.place,
         fmt::format("`{}` cannot be a name: only models have hyphens; write `_`", token.text)});
  }
  in_.take();
  in_.bound(token.text);
  return token.text;
}

Parser::LineResult Parser::use() {
  in_.take();
  Use use;
  const Token model = in_.peek();
  if (model.kind != Kind::Word && model.kind != Kind::Text) {
    return Missing({Check::L1, model.place,
                    fmt::format("expected a model after `use`, not {}", described(model))});
  }
  use.model = in_.take().text;
  use.place = model.place;
  if (in_.is_word("at")) {
    use.at_place = in_.take().place;
    const Token at = in_.peek();
    if (at.kind == Kind::Size) {
      use.at = in_.take().size;
    } else if (in_.is_word("fit")) {
      in_.take();
      use.fit = TRY(in_.whole("the longest side in pixels, as in `fit 512 photo`"));
      const Token name = in_.peek();
      if (name.kind != Kind::Word) {
        return Missing({Check::L1, name.place,
                        fmt::format("expected the name of a picture after `fit {}`, not {}",
                                    *use.fit, described(name))});
      }
      use.fit_name = in_.take().text;
    } else {
      return Missing({Check::L1, at.place,
                      fmt::format("expected a size, as in 512x512, or `fit 512 photo` after `at`, "
                                  "not {}",
                                  described(at))});
    }
  }
  if (in_.peek().kind == Kind::LineEnd) return use;
  const Token dtype = in_.peek();
  if (dtype.kind != Kind::Word || std::ranges::find(dtypes(), dtype.text) == dtypes().end()) {
    return Missing({Check::L1, dtype.place,
                    fmt::format("expected {}, not {}{}",
                                use.at || use.fit ? "a precision such as f16"
                                                  : "`at` or a precision such as f16",
                                described(dtype), hint(dtype.text, dtypes()))});
  }
  use.dtype_place = dtype.place;
  use.dtype = in_.take().text;
  return use;
}

Parser::LineResult Parser::input() {
  in_.take();
  In in;
  in.place = in_.peek().place;
  in.name = TRY(new_name());
  TRY_VOID(in_.expect(Kind::Colon, "`:` and a type"));
  in.type = TRY(in_.type());
  if (in_.peek().kind != Kind::Equals) return in;
  in_.take();
  Value value = TRY(in_.value());
  const auto is_text = [](const Value& v) { return v.kind == Value::Kind::Text; };
  if (!is_text(value) &&
      !(value.kind == Value::Kind::List && std::ranges::all_of(value.items, is_text))) {
    return Missing({Check::L1, value.place, "an input's default is a text or a list of texts"});
  }
  in.initial = std::move(value);
  return in;
}

Parser::LineResult Parser::bind() {
  Bind bind;
  bind.place = in_.peek().place;
  // Bound only below: the flow must not use it.
  bind.name = TRY(new_name());
  if (in_.peek().kind == Kind::Colon) {
    in_.take();
    bind.type = TRY(in_.type());
  }
  TRY_VOID(in_.expect(Kind::Equals, "`=`"));
  bind.flow = TRY(in_.flow());
  if (in_.peek().kind == Kind::Bar) {  // Only before `out` does a flow stop at a bar.
    return Missing(
        {Check::L1, in_.peek(1).place,
         fmt::format("a line that binds a name puts nothing out; write `out {} ...` on a "
                     "line of its own",
                     bind.name)});
  }
  return bind;
}

Maybe<Out> Parser::medium_after(Flow flow) {
  const Token medium = in_.peek();
  const auto names = names_of(media());
  const MediumSpec* spec = medium.kind == Kind::Word ? find_medium(medium.text) : nullptr;
  if (spec == nullptr) {
    return Missing({Check::L1, medium.place,
                    fmt::format("expected a medium, {}, not {}{}", one_of(names), described(medium),
                                hint(medium.text, names))});
  }
  in_.take();
  Out out;
  out.flow = std::move(flow);
  out.medium = medium.text;
  out.place = medium.place;
  out.arguments = TRY(in_.keyed(spec->keys, spec->name));
  return out;
}

Parser::LineResult Parser::out() {
  in_.take();
  const Token token = in_.peek();
  Value value = TRY(in_.value());
  Flow flow;
  switch (value.kind) {
    case Value::Kind::Flow: flow = std::move(value.flow.front()); break;
    case Value::Kind::Word:
      if (find_stage(value.text) != nullptr) {
        return Missing({Check::L1, token.place,
                        fmt::format("put what `{}` makes in brackets: `out ({} ...) png`",
                                    value.text, value.text)});
      }
      [[fallthrough]];
    case Value::Kind::Text:
    case Value::Kind::Handle: flow.source = std::move(value); break;
    default:
      return Missing({Check::L1, token.place,
                      fmt::format("expected what to put out: a name, a text, `lat:ID` or a flow in "
                                  "brackets, not {}",
                                  described(token))});
  }
  return TRY(medium_after(std::move(flow)));
}

Parser::LineResult Parser::flow_line() {
  const Token first = in_.peek();
  Flow flow = TRY(in_.flow());
  const Token& next = in_.peek();
  if (next.kind == Kind::Bar) {
    in_.take();  // And `out`, which stopped the flow.
    in_.take();
    return TRY(medium_after(std::move(flow)));
  }
  const bool bare = flow.stages.empty() && first.kind == Kind::Word;
  if (bare && next.kind != Kind::LineEnd) {
    std::vector<std::string_view> words = names_of(stages());
    words.insert(words.end(), line_words().begin(), line_words().end());
    return Missing({Check::L1, first.place,
                    fmt::format("no line begins with `{} {}`{}", first.text,
                                next.kind == Kind::Text ? "\"...\"" : in_.raw(next),
                                hint(first.text, words))});
  }
  if (next.kind != Kind::LineEnd) {
    return Missing({Check::L1, next.place,
                    fmt::format("expected `|` or the end of the line, not {}", described(next))});
  }
  return Missing({Check::L1, first.place,
                  "this line's value goes nowhere; end it with `| out png`, or bind it with "
                  "`name = ...`"});
}

Parser::LineResult Parser::keep() {
  in_.take();
  Keep keep;
  const Token name = in_.peek();
  if (name.kind != Kind::Word) {
    return Missing({Check::L1, name.place,
                    fmt::format("expected the name of what to keep, not {}", described(name))});
  }
  keep.place = name.place;
  keep.name = in_.take().text;
  const Token time = in_.peek();
  if (time.kind != Kind::Number || !nanoseconds(time.number)) {
    return Missing(
        {Check::L1, time.place,
         fmt::format("expected how long to keep it, as in 7d, not {}", described(time))});
  }
  keep.duration = in_.take().number;
  return keep;
}

Parser::LineResult Parser::want() {
  in_.take();
  Want want;
  while (in_.peek().kind != Kind::LineEnd || want.wishes.empty()) {
    const Token word = in_.peek();
    if (word.kind != Kind::Word || std::ranges::find(wishes(), word.text) == wishes().end()) {
      return Missing(
          {Check::L1, word.place,
           fmt::format("expected {}, not {}{}", one_of({wishes().begin(), wishes().end()}),
                       described(word), hint(word.text, wishes()))});
    }
    in_.take();
    TRY_VOID(in_.count(word.place));
    Wish wish{.word = word.text, .place = word.place, .limit = std::nullopt};
    if (wish.word == "under") {
      const Token time = in_.peek();
      if (time.kind != Kind::Number || !nanoseconds(time.number)) {
        return Missing(
            {Check::L1, time.place,
             fmt::format("expected a time after `under`, as in 10s, not {}", described(time))});
      }
      wish.limit = in_.take().number;
    }
    want.wishes.push_back(std::move(wish));
  }
  return want;
}

}  // namespace

Parsed parse(std::string_view text, const Limits& limits) {
  Lexed lexed = lex(text, limits);
  return Parser(std::move(lexed), limits).run();
}

}  // namespace lares::sketch
