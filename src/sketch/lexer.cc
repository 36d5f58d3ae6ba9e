#include "sketch/lexer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"
#include "sketch/unicode.h"

namespace lares::sketch {
namespace {

using Kind = Token::Kind;

// Longer than anybody types; finding the nearest word is quadratic.
constexpr std::size_t kWordBytesMax = 128;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class Lexer {
 public:
  Lexer(std::string_view text, const Limits& limits) : text_(text), limits_(limits) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  Lexed run() {
    while (at_ < text_.size() && lexed_.problems.size() < limits_.problems) step();
    end_line(here());
    emit({.kind = Kind::End, .place = here(), .text = {}, .number = {}, .size = {}});
    return std::move(lexed_);
  }

 private:
  void step();
  void word();
  void quoted();
  void number();
  void line_break();
  void comment();
  void end_line(Place place);
  bool continues();

  [[nodiscard]] Place here() const { return {line_, column_}; }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  // One code point on.
  char32_t take() {
    ++column_;
    return next_code_point(text_, at_);
  }
  std::string_view digits() {
    const std::size_t from = at_;
    while (peek() >= '0' && peek() <= '9') take();
    return text_.substr(from, at_ - from);
  }
  void emit(Token token) {
    if (lexed_.tokens.size() == line_start_) token.gap = std::exchange(gap_, false);
    lexed_.tokens.push_back(std::move(token));
  }
  void emit(Kind kind, Place place, std::string text = {}) {
    Token token;
    token.kind = kind;
    token.place = place;
    token.text = std::move(text);
    emit(std::move(token));
  }
  void problem(Place place, std::string message) {
    lexed_.problems.push_back({Check::L1, place, std::move(message)});
    broken_ = true;
    while (at_ < text_.size() && peek() != '\n') take();
  }

  std::string_view text_;
  const Limits& limits_;
  Lexed lexed_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1, column_ = 1;
  std::uint32_t depth_ = 0;        // Open brackets: line ends inside are blanks.
  std::size_t line_start_ = 0;     // First token of the line being read.
  std::vector<Token> inner_;       // Comments to be moved before it.
  std::optional<Token> trailing_;  // The comment that may turn out to be the line's last.
  std::size_t bar_ = 0;  // Only blanks and comments lie before this `|`: found once, not per line.
  bool gap_ = false;
  bool broken_ = false;
};

// True if the next line with something on it begins with `|`.
bool Lexer::continues() {
  if (at_ < bar_) return true;
  std::size_t i = at_;
  while (i < text_.size()) {
    const char c = text_[i];
    if (c == '#') {
      i = std::min(text_.find('\n', i), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      ++i;
    } else {
      if (c == '|') bar_ = i + 1;
      return c == '|';
    }
  }
  return false;
}

void Lexer::line_break() {
  const Place end = here();
  ++at_;
  ++line_;
  column_ = 1;
  if (depth_ > 0) return;
  if (lexed_.tokens.size() == line_start_) {
    // Comments on their own are lines; emptiness is remembered once.
    gap_ = gap_ || !lexed_.tokens.empty();
    return;
  }
  if (!continues()) end_line(end);
}

void Lexer::end_line(Place place) {
  if (lexed_.tokens.size() == line_start_) {
    broken_ = false;
    return;
  }
  if (!inner_.empty()) {
    std::vector<Token> lines;
    inner_.front().gap = std::exchange(lexed_.tokens[line_start_].gap, false);
    for (Token& token : inner_) {
      Token end;
      end.kind = Kind::LineEnd;
      end.place = token.place;
      lines.push_back(std::move(token));
      lines.push_back(std::move(end));
    }
    const auto start = lexed_.tokens.begin() + static_cast<std::ptrdiff_t>(line_start_);
    lexed_.tokens.insert(start, std::make_move_iterator(lines.begin()),
                         std::make_move_iterator(lines.end()));
    inner_.clear();
  }
  Token end;
  end.kind = Kind::LineEnd;
  end.place = place;
  end.broken = std::exchange(broken_, false);
  if (trailing_) {
    end.place = trailing_->place;
    end.text = std::move(trailing_->text);
    end.comment = true;
    trailing_.reset();
  }
  lexed_.tokens.push_back(std::move(end));
  line_start_ = lexed_.tokens.size();
  depth_ = 0;
}

void Lexer::comment() {
  Token token;
  token.kind = Kind::Comment;
  token.place = here();
  take();
  const std::size_t from = at_;
  while (at_ < text_.size() && peek() != '\n') take();
  std::string_view text = text_.substr(from, at_ - from);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  if (std::ranges::any_of(text,
                          [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; })) {
    problem(token.place, "a comment holds a control character");
    return;
  }
  token.text = std::string(text);
  if (depth_ == 0 && lexed_.tokens.size() == line_start_) {
    emit(std::move(token));
    end_line(here());
    // Its own line break is no empty line.
    if (peek() == '\n') {
      ++at_;
      ++line_;
      column_ = 1;
    }
  } else if (depth_ > 0 || continues()) {
    inner_.push_back(std::move(token));
  } else {
    trailing_ = std::move(token);
  }
}

void Lexer::word() {
  const Place place = here();
  const std::size_t from = at_;
  for (std::size_t i = at_; i < text_.size(); i = at_) {
    const char32_t c = next_code_point(text_, i);
    const bool joint = c == U'-' && i < text_.size() && text_[i] != '-';
    if (joint) {
      std::size_t next = i;
      if (!continues_name(next_code_point(text_, next))) break;
    } else if (!continues_name(c)) {
      break;
    }
    take();
  }
  const std::string_view name = text_.substr(from, at_ - from);
  if (name.size() > kWordBytesMax) {
    problem(place, fmt::format("a word of {} bytes; at most {}", name.size(), kWordBytesMax));
    lexed_.problems.back().check = Check::L2;
    return;
  }
  if (!is_composed(name)) {
    problem(place, fmt::format("`{}` is not in Unicode's normalisation form C; type it anew, with "
                               "letters that carry their accents",
                               name));
    return;
  }
  const auto is_id = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); };
  if (name == "lat" && peek() == ':' && is_id(peek(1))) {
    take();
    const std::size_t id = at_;
    while (is_id(peek())) take();
    emit(Kind::Handle, place, std::string(text_.substr(id, at_ - id)));
    return;
  }
  emit(Kind::Word, place, std::string(name));
}

void Lexer::quoted() {
  const Place place = here();
  take();
  std::string out;
  while (at_ < text_.size() && peek() != '"') {
    const char c = peek();
    if (c == '\n' || c == '\r') break;
    if ((c >= 0 && c < ' ' && c != '\t') || c == 127) {
      return problem(here(), "a text holds a control character; of these only \\n can be written");
    }
    if (c != '\\') {
      const std::size_t from = at_;
      take();
      out += text_.substr(from, at_ - from);
      continue;
    }
    const char next = peek(1);
    if (next != '"' && next != '\\' && next != 'n') {
      return problem(here(),
                     "in a text, `\\` stands before `\"`, `\\` or `n`; write `\\\\` for one "
                     "of its own");
    }
    out += next == 'n' ? '\n' : next;
    take();
    take();
  }
  if (peek() != '"' || at_ >= text_.size()) {
    return problem(place, "this text has no closing `\"` on its line; write \\n for a line's end");
  }
  take();
  if (!pieces_of(out)) {
    return problem(place,
                   "in a text, braces hold the name of an input, `{name}`; write `{{` for a "
                   "brace of its own");
  }
  emit(Kind::Text, place, std::move(out));
}

void Lexer::number() {
  const Place place = here();
  const std::size_t from = at_;
  std::string_view whole = digits();
  if (peek() == '.' && peek(1) >= '0' && peek(1) <= '9') {
    take();
    digits();
  }
  const std::string_view text = text_.substr(from, at_ - from);
  Token token;
  token.place = place;
  const auto small = [](std::string_view d) -> std::optional<std::uint32_t> {
    const auto n = Decimal::parse(d);
    if (!n || !n->is_whole() || n->units > 999999999) return std::nullopt;
    return static_cast<std::uint32_t>(n->units);
  };
  if ((peek() == 'x' || peek() == '/') && peek(1) >= '0' && peek(1) <= '9') {
    token.kind = peek() == 'x' ? Kind::Size : Kind::Fraction;
    take();
    const auto a = small(text);
    const auto b = small(digits());
    if (!a || !b || whole.size() != text.size()) {
      return problem(place, "a size is two whole numbers of at most nine digits, as in 512x512");
    }
    token.size = {*a, *b};
    return emit(std::move(token));
  }
  const std::size_t unit_from = at_;
  while (at_ < text_.size()) {
    std::size_t i = at_;
    if (!continues_name(next_code_point(text_, i))) break;
    take();
  }
  const std::string_view unit = text_.substr(unit_from, at_ - unit_from);
  const auto value = Decimal::parse(text);
  const auto known = unit_of(unit);
  if (!value) {
    return problem(place, fmt::format("the number {} is too long: at most six places and eighteen "
                                      "digits",
                                      text));
  }
  if (!known) {
    return problem(place,
                   fmt::format("there is no unit `{}`: write 2x for a factor, 300ms, 2s, 5m, "
                               "1h or 7d for a time",
                               unit));
  }
  token.kind = Kind::Number;
  token.number = {*value, *known};
  emit(std::move(token));
}

void Lexer::step() {
  const Place place = here();
  const char c = peek();
  const auto single = [&](Kind kind) {
    take();
    emit(kind, place);
  };
  switch (c) {
    case ' ':
    case '\t': take(); return;
    case '\r':
      if (peek(1) != '\n') return problem(place, "a carriage return inside of a line");
      take();
      return;
    case '\n': return line_break();
    case '#': return comment();
    case '"': return quoted();
    case '|': return single(Kind::Bar);
    case '=': return single(Kind::Equals);
    case ':': return single(Kind::Colon);
    case '(': ++depth_; return single(Kind::Open);
    case '[': ++depth_; return single(Kind::OpenList);
    case ')':
    case ']':
      if (depth_ > 0) --depth_;
      return single(c == ')' ? Kind::Close : Kind::CloseList);
    default: break;
  }
  if (c >= '0' && c <= '9') return number();
  std::size_t i = at_;
  const char32_t code = next_code_point(text_, i);
  if (starts_name(code)) return word();
  if (code < 0x20 || code == 0x7f) return problem(place, "a control character");
  problem(place, fmt::format("`{}` means nothing here", text_.substr(at_, i - at_)));
}

}  // namespace

Lexed lex(std::string_view text, const Limits& limits) {
  Lexed refused;
  refused.tokens.emplace_back();
  if (text.size() > limits.bytes) {
    refused.problems.push_back(
        {Check::L2,
         {1, 1},
         fmt::format("the sketch has {} bytes; at most {}", text.size(), limits.bytes)});
    return refused;
  }
  if (!is_utf8(text)) {
    std::uint32_t line = 1;
    std::size_t start = 0;
    // The longest well-formed beginning ends where the first bad byte is.
    std::size_t good = 0;
    while (good < text.size()) {
      std::size_t length = 1;
      while (length < 4 && !is_utf8(text.substr(good, length))) ++length;
      if (!is_utf8(text.substr(good, length))) break;
      if (text[good] == '\n') {
        ++line;
        start = good + 1;
      }
      good += length;
    }
    const auto column = static_cast<std::uint32_t>(columns_of(text.substr(start, good - start)));
    refused.problems.push_back({Check::L1, {line, column + 1}, "not UTF-8 from here on"});
    return refused;
  }
  return Lexer(text, limits).run();
}

std::string described(const Token& token) {
  switch (token.kind) {
    case Kind::Word: return fmt::format("`{}`", token.text);
    case Kind::Text: return "a text";
    case Kind::Number: return fmt::format("`{}`", token.number.text());
    case Kind::Size: return fmt::format("`{}`", token.size.text());
    case Kind::Fraction: return fmt::format("`{}/{}`", token.size.width, token.size.height);
    case Kind::Handle: return fmt::format("`lat:{}`", token.text);
    case Kind::Comment: return "a comment";
    case Kind::Bar: return "`|`";
    case Kind::Equals: return "`=`";
    case Kind::Colon: return "`:`";
    case Kind::Open: return "`(`";
    case Kind::Close: return "`)`";
    case Kind::OpenList: return "`[`";
    case Kind::CloseList: return "`]`";
    case Kind::LineEnd: return "the end of the line";
    case Kind::End: return "the end";
  }
  return "";
}

}  // namespace lares::sketch
