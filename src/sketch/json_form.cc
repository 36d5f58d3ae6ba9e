#include "sketch/json_form.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "core/result.h"
#include "core/text.h"
#include "sketch/json_reader.h"
#include "sketch/parser_values.h"
#include "sketch/printer.h"

namespace lares::sketch {
namespace {

using Kind = JsonValue::Kind;
using Missing = tl::unexpected<Problem>;

// Of canonical JSON per byte of text; and how deep a bracket is: flow, stage, args, value, twice.
constexpr std::size_t kBytesPerByte = 8;
constexpr std::uint32_t kValuesPerNode = 8;
constexpr std::uint32_t kLevelsPerBracket = 5;
constexpr std::uint32_t kLevelsAround = 8;

Missing wrong(const JsonValue& at, std::string message) {
  return Missing({Check::L1, at.place, std::move(message)});
}

// The members are among those named.
Maybe<> only(const JsonValue& value, std::initializer_list<std::string_view> allowed) {
  for (std::size_t i = 0; i < value.keys.size(); ++i) {
    if (std::ranges::find(allowed, value.keys[i]) != allowed.end()) continue;
    return wrong(value.items[i],
                 fmt::format("there is no member `{}` here{}", value.keys[i],
                             hint(value.keys[i], std::span(allowed.begin(), allowed.size()))));
  }
  return {};
}

Maybe<const JsonValue*> member(const JsonValue& value, std::string_view key) {
  const JsonValue* found = value.find(key);
  if (found == nullptr) return wrong(value, fmt::format("`{}` is missing", key));
  return found;
}

Maybe<std::string> string_of(const JsonValue& value) {
  if (value.kind != Kind::String) {
    return wrong(value, fmt::format("expected a string, not {}", kind_name(value)));
  }
  return value.text;
}

Maybe<Decimal> number_of(const JsonValue& value) {
  const auto number = value.kind == Kind::Number ? Decimal::parse(value.text) : std::nullopt;
  if (!number) {
    return wrong(value, "expected a number, not negative, written plainly with at most six places");
  }
  return *number;
}

Maybe<std::uint32_t> whole_of(const JsonValue& value) {
  const Decimal number = TRY(number_of(value));
  if (!number.is_whole() || number.units > 999999999)
    return wrong(value, "expected a whole number");
  return static_cast<std::uint32_t>(number.units);
}

Maybe<Size> size_of(const JsonValue& value) {
  if (value.kind != Kind::Array || value.items.size() != 2) {
    return wrong(value, "expected a size, [width, height]");
  }
  return Size{TRY(whole_of(value.items[0])), TRY(whole_of(value.items[1]))};
}

// "300ms", "2x": read as in the text form.
Maybe<Number> unit_of_json(const JsonValue& value) {
  const std::string text = TRY(string_of(value));
  const Lexed lexed = lex(text, {});
  const Token& token = lexed.tokens.front();
  if (!lexed.problems.empty() || lexed.tokens.size() != 3 || token.kind != Token::Kind::Number) {
    return wrong(value, "expected a number with its unit, as in \"2x\" or \"7d\"");
  }
  return token.number;
}

Maybe<TypeNote> type_of(const JsonValue& value) {
  const std::string text = TRY(string_of(value));
  Lexed lexed = lex(text, {});
  if (!lexed.problems.empty()) return wrong(value, lexed.problems.front().message);
  const Limits limits;
  ValueParser parser(std::move(lexed.tokens), limits);
  Maybe<TypeNote> type = parser.type();
  if (!type) return wrong(value, type.error().message);
  return type;
}

Maybe<Flow> flow_of(const JsonValue& value);

Maybe<Value> value_of(const JsonValue& value) {
  switch (value.kind) {
    case Kind::String: return Value::quoted(value.text);
    case Kind::Number: return Value::of(Number{TRY(number_of(value)), Unit::None});
    case Kind::Array: {
      std::vector<Value> items;
      for (const JsonValue& item : value.items) items.push_back(TRY(value_of(item)));
      return Value::list(std::move(items));
    }
    case Kind::Object: break;
    default: return wrong(value, fmt::format("expected a value, not {}", kind_name(value)));
  }
  TRY_VOID(only(value, {"name", "unit", "size", "lat", "flow"}));
  if (value.keys.size() != 1) return wrong(value, "a value has one member");
  const JsonValue& inner = value.items.front();
  const std::string& key = value.keys.front();
  if (key == "name") return Value::word(TRY(string_of(inner)));
  if (key == "unit") return Value::of(TRY(unit_of_json(inner)));
  if (key == "size") return Value::of(TRY(size_of(inner)));
  if (key == "lat") return Value::handle(TRY(string_of(inner)));
  Flow flow = TRY(flow_of(inner));
  if (flow.stages.empty()) return std::move(*flow.source);
  return Value::of(std::move(flow));
}

Maybe<std::vector<Argument>> args_of(const JsonValue& owner) {
  std::vector<Argument> arguments;
  const JsonValue* list = owner.find("args");
  if (list == nullptr) return arguments;
  if (list->kind != Kind::Array) return wrong(*list, "expected an array of arguments");
  for (const JsonValue& item : list->items) {
    Argument argument;
    if (item.kind == Kind::Object && item.find("key") != nullptr) {
      TRY_VOID(only(item, {"key", "value"}));
      argument.key = TRY(string_of(*item.find("key")));
      argument.value = TRY(value_of(*TRY(member(item, "value"))));
    } else {
      argument.value = TRY(value_of(item));
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

Maybe<Flow> flow_of(const JsonValue& value) {
  if (value.kind != Kind::Array || value.items.empty()) {
    return wrong(value, "expected a flow: an array of a source and stages");
  }
  Flow flow;
  for (const JsonValue& item : value.items) {
    if (item.kind == Kind::Object && item.find("stage") != nullptr) {
      TRY_VOID(only(item, {"stage", "args"}));
      flow.stages.push_back({.name = TRY(string_of(*item.find("stage"))),
                             .place = {},
                             .arguments = TRY(args_of(item))});
      continue;
    }
    if (&item != &value.items.front()) return wrong(item, "expected a stage");
    Value source = TRY(value_of(item));
    if (source.kind == Value::Kind::Flow) {
      flow = std::move(source.flow.front());
    } else {
      flow.source = std::move(source);
    }
  }
  return flow;
}

using What = decltype(Line::what);

Maybe<What> use_of(const JsonValue& value) {
  TRY_VOID(only(value, {"use", "at", "fit", "name", "dtype", "gap", "note"}));
  Use use;
  use.model = TRY(string_of(*value.find("use")));
  if (const JsonValue* at = value.find("at")) use.at = TRY(size_of(*at));
  if (const JsonValue* fit = value.find("fit")) {
    if (use.at) return wrong(*fit, "`at` and `fit` together");
    use.fit = TRY(whole_of(*fit));
    use.fit_name = TRY(string_of(*TRY(member(value, "name"))));
  }
  if (const JsonValue* dtype = value.find("dtype")) use.dtype = TRY(string_of(*dtype));
  return use;
}

Maybe<What> in_of(const JsonValue& value) {
  TRY_VOID(only(value, {"in", "type", "initial", "gap", "note"}));
  In in;
  in.name = TRY(string_of(*value.find("in")));
  in.type = TRY(type_of(*TRY(member(value, "type"))));
  if (const JsonValue* initial = value.find("initial")) in.initial = TRY(value_of(*initial));
  return in;
}

Maybe<What> bind_of(const JsonValue& value) {
  TRY_VOID(only(value, {"bind", "type", "flow", "gap", "note"}));
  Bind bind;
  bind.name = TRY(string_of(*value.find("bind")));
  if (const JsonValue* type = value.find("type")) bind.type = TRY(type_of(*type));
  bind.flow = TRY(flow_of(*TRY(member(value, "flow"))));
  return bind;
}

Maybe<What> out_of(const JsonValue& value) {
  TRY_VOID(only(value, {"out", "medium", "args", "gap", "note"}));
  Out out;
  out.flow = TRY(flow_of(*value.find("out")));
  out.medium = TRY(string_of(*TRY(member(value, "medium"))));
  out.arguments = TRY(args_of(value));
  return out;
}

Maybe<What> keep_of(const JsonValue& value) {
  TRY_VOID(only(value, {"keep", "for", "gap", "note"}));
  Keep keep;
  keep.name = TRY(string_of(*value.find("keep")));
  keep.duration = TRY(unit_of_json(*TRY(member(value, "for"))));
  return keep;
}

Maybe<What> want_of(const JsonValue& value) {
  TRY_VOID(only(value, {"want", "gap", "note"}));
  const JsonValue& list = *value.find("want");
  if (list.kind != Kind::Array) return wrong(list, "expected an array of wishes");
  Want want;
  for (const JsonValue& item : list.items) {
    Wish wish;
    if (item.kind == Kind::Object && item.keys.size() == 1) {
      wish.word = item.keys.front();
      wish.limit = TRY(unit_of_json(item.items.front()));
    } else {
      wish.word = TRY(string_of(item));
    }
    want.wishes.push_back(std::move(wish));
  }
  return want;
}

Maybe<What> what_of(const JsonValue& value) {
  if (value.kind != Kind::Object) return wrong(value, "a line is an object");
  if (const JsonValue* comment = value.find("comment")) {
    TRY_VOID(only(value, {"comment", "gap"}));
    return Comment{TRY(string_of(*comment))};
  }
  if (value.find("use") != nullptr) return use_of(value);
  if (value.find("in") != nullptr) return in_of(value);
  if (value.find("bind") != nullptr) return bind_of(value);
  if (value.find("out") != nullptr) return out_of(value);
  if (value.find("keep") != nullptr) return keep_of(value);
  if (value.find("want") != nullptr) return want_of(value);
  return wrong(value,
               "expected a line: an object with `use`, `in`, `bind`, `out`, `keep`, `want` or "
               "`comment`");
}

Maybe<Line> line_of(const JsonValue& value, const Limits& limits) {
  Line line;
  line.what = TRY(what_of(value));
  if (const JsonValue* note = value.find("note")) line.comment = TRY(string_of(*note));
  // Said in text it must be the same: that is what refuses names that are none, and all the rest.
  const std::string text = print(Sketch{{line}});
  const Parsed again = parse(text, limits);
  if (!again.problems.empty()) {
    Problem problem = again.problems.front();
    problem.place = value.place;
    problem.message =
        fmt::format("{}\nIt reads: {}", problem.message, text.substr(0, text.size() - 1));
    return Missing(std::move(problem));
  }
  if (again.sketch.lines.size() != 1 || again.sketch.lines.front() != line) {
    return wrong(value, "this line cannot be said in a sketch's text");
  }
  if (const JsonValue* gap = value.find("gap")) {
    if (gap->kind != Kind::True && gap->kind != Kind::False)
      return wrong(*gap, "expected a boolean");
    line.gap = gap->kind == Kind::True;
  }
  return line;
}

Maybe<Sketch> sketch_of(std::string_view text, const Limits& limits) {
  if (text.size() > limits.bytes * kBytesPerByte) {
    return Missing({Check::L2,
                    {1, 1},
                    fmt::format("the sketch's JSON has {} bytes; at most {}", text.size(),
                                limits.bytes * kBytesPerByte)});
  }
  const JsonValue root = TRY(read_json_value(text, limits.depth * kLevelsPerBracket + kLevelsAround,
                                             limits.nodes * kValuesPerNode));
  if (root.kind != Kind::Object) return wrong(root, "a sketch is an object");
  TRY_VOID(only(root, {"sketch", "lines"}));
  if (const JsonValue* version = root.find("sketch"); version == nullptr || version->text != "1") {
    return wrong(version == nullptr ? root : *version,
                 "expected `\"sketch\":1`: there is no other version");
  }
  const JsonValue& lines = *TRY(member(root, "lines"));
  if (lines.kind != Kind::Array) return wrong(lines, "expected an array of lines");
  Sketch sketch;
  for (const JsonValue& line : lines.items) sketch.lines.push_back(TRY(line_of(line, limits)));
  if (!sketch.lines.empty()) sketch.lines.front().gap = false;
  return sketch;
}

}  // namespace

Parsed read_json(std::string_view text, const Limits& limits) {
  Maybe<Sketch> sketch = sketch_of(text, limits);
  if (!sketch) return {{}, {std::move(sketch.error())}};
  return parse(print(*sketch), limits);
}

}  // namespace lares::sketch
