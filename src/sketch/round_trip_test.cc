// Random trees: what is printed is read back as the same tree, as text and as JSON.
#include <array>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/hash.h"
#include "sketch/json_form.h"
#include "sketch/parser.h"
#include "sketch/printer.h"
#include "sketch/signature.h"

namespace lares::sketch {
namespace {

// Makes trees in normal form from a seed. Not every one makes sense; each can be written.
class Maker {
 public:
  explicit Maker(std::uint64_t seed) : state_(seed) {}

  Sketch sketch() {
    Sketch sketch;
    const std::uint64_t n = below(8);
    for (std::uint64_t i = 0; i < n; ++i) {
      Line line;
      line.gap = i > 0 && chance(4);
      line.what = what();
      if (!std::holds_alternative<Comment>(line.what) && chance(4)) line.comment = comment();
      sketch.lines.push_back(std::move(line));
    }
    return sketch;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return (state_ = mix64(state_)) % n; }
  bool chance(std::uint64_t n) { return below(n) == 0; }

  template <class Words>
  std::string pick(const Words& words) {
    return std::string(words[below(std::size(words))]);
  }

  std::string name() {
    static constexpr std::array<std::string_view, 7> kNames{"a",   "größe", "_x1", "名前",
                                                            "big", "f16",   "ddim"};
    return pick(kNames);
  }
  std::string model() {
    static constexpr std::array<std::string_view, 6> kModels{"sd-turbo",     "sd15", "at",
                                                             "llama-3.2 1b", "f16",  "x--y"};
    return pick(kModels);
  }
  std::string comment() {
    static constexpr std::array<std::string_view, 4> kComments{"", " why", "!x", " a # b | \"c"};
    return pick(kComments);
  }
  std::string raw() {
    static constexpr std::array<std::string_view, 7> kPieces{"a fox", "\"",     "\\", "\n",
                                                             "{{",    "{idea}", "é😀"};
    std::string out;
    for (std::uint64_t i = below(5); i > 0; --i) out += pick(kPieces);
    return out;
  }
  Decimal decimal() { return Decimal::millionths(static_cast<std::int64_t>(below(3000000))); }
  Number number(std::uint32_t takes) {
    if ((takes & kWhole) != 0) return {Decimal::whole(static_cast<std::int64_t>(below(1000)))};
    if ((takes & kNumeral) != 0) return {decimal()};
    if ((takes & kFactor) != 0) return {decimal(), Unit::Factor};
    return {decimal(), static_cast<Unit>(2 + below(5))};
  }
  Size size() {
    return {static_cast<std::uint32_t>(below(2000)), static_cast<std::uint32_t>(below(2000))};
  }

  // A source: a word, a text or a handle.
  Value primary() {
    switch (below(3)) {
      case 0: return Value::word(name());
      case 1: return Value::quoted(raw());
      default: return Value::handle("3f9c0");
    }
  }
  Value operand(int depth) {
    if (depth > 0 && chance(3)) {
      Flow inner = flow(depth - 1);
      if (inner.stages.empty()) inner.stages.push_back(stage(0));
      return Value::of(std::move(inner));
    }
    if (chance(6)) return Value::list({primary(), Value::of(number(kNumeral)), Value::of(size())});
    return primary();
  }
  Value value_for(const KeySpec& key, int depth) {
    if ((key.takes & kChoice) != 0 && (chance(2) || key.takes == kChoice)) {
      return Value::word(pick(key.choices));
    }
    if ((key.takes & (kWords | kSchema)) != 0) {
      return chance(2) ? Value::quoted(raw()) : depth > 0 ? operand_flow(depth) : primary_word();
    }
    if ((key.takes & kModel) != 0) return Value::quoted(model());
    if ((key.takes & kWholes) != 0 && chance(2)) {
      return Value::list({Value::of(number(kWhole)), Value::of(number(kWhole))});
    }
    return Value::of(number(key.takes));
  }
  Value primary_word() { return Value::word(name()); }
  Value operand_flow(int depth) {
    Flow inner = flow(depth - 1);
    inner.stages.push_back(stage(0));
    return Value::of(std::move(inner));
  }

  std::vector<Argument> keyed(std::span<const KeySpec> keys, int depth) {
    std::vector<Argument> arguments;
    for (const KeySpec& key : keys) {
      if (!chance(3)) continue;
      arguments.push_back({std::string(key.name), {}, value_for(key, depth)});
    }
    return arguments;
  }
  Stage stage(int depth) {
    const auto all = stages();
    const StageSpec& spec = all[below(all.size())];
    Stage made{.name = std::string(spec.name), .place = {}, .arguments = {}};
    for (std::uint64_t i = below(3); i > 0; --i) {
      made.arguments.push_back({"", {}, operand(depth)});
    }
    if (spec.number != kNothing && chance(2)) {
      const bool sized = (spec.number & kSize) != 0 && chance(2);
      made.arguments.push_back(
          {"", {}, sized ? Value::of(size()) : Value::of(number(spec.number))});
    }
    for (Argument& argument : keyed(spec.keys, depth))
      made.arguments.push_back(std::move(argument));
    return made;
  }
  Flow flow(int depth) {
    Flow made;
    if (chance(2)) made.source = primary();
    for (std::uint64_t i = below(3) + (made.source ? 0 : 1); i > 0; --i) {
      made.stages.push_back(stage(depth));
    }
    return made;
  }
  TypeNote type() {
    TypeNote made;
    made.kind = pick(type_names());
    made.lists = chance(3) ? 1 : 0;
    const bool latent = made.kind == "Latent";
    const bool cond = made.kind == "Cond";
    if ((latent || cond || made.kind == "Embedding") && chance(2)) made.what = model();
    if ((latent || cond || made.kind == "Pixels") && chance(2)) made.size = size();
    if ((made.kind == "Audio" || made.kind == "Embedding") && chance(2)) made.count = 384;
    if ((latent || cond) && chance(2)) made.dtype = pick(dtypes());
    if (latent && chance(3)) made.clean = true;
    if (latent && !made.clean && chance(3)) made.at = Size{8, 20};
    return made;
  }
  Number time() { return {Decimal::whole(static_cast<std::int64_t>(below(100))), Unit::Hours}; }

  decltype(Line::what) what() {
    switch (below(7)) {
      case 0: return Comment{comment()};
      case 1: {
        Use use;
        use.model = model();
        if (chance(3)) use.at = size();
        if (!use.at && chance(2)) {
          use.fit = 512;
          use.fit_name = name();
        }
        if (chance(2)) use.dtype = pick(dtypes());
        return use;
      }
      case 2: {
        In in;
        in.name = name();
        in.type = type();
        if (chance(3)) in.initial = Value::quoted(raw());
        if (chance(5)) in.initial = Value::list({Value::quoted(raw()), Value::quoted(raw())});
        return in;
      }
      case 3: {
        Bind bind;
        bind.name = name();
        if (chance(3)) bind.type = type();
        bind.flow = flow(3);
        return bind;
      }
      case 4: return out();
      case 5: return Keep{name(), {}, time()};
      default: {
        Want want;
        want.wishes.push_back({pick(std::array<std::string_view, 2>{"draft", "exact"}), {}, {}});
        if (chance(2)) want.wishes.push_back({"under", {}, time()});
        return want;
      }
    }
  }
  Out out() {
    const auto all = media();
    const MediumSpec& medium = all[below(all.size())];
    Out made;
    made.flow = flow(3);
    made.medium = std::string(medium.name);
    made.arguments = keyed(medium.keys, 0);
    return made;
  }

  std::uint64_t state_;
};

RC_GTEST_PROP(RoundTrip, TextIsReadBack, (std::uint64_t seed)) {
  const Sketch made = Maker(seed).sketch();
  const std::string text = print(made);
  const Parsed parsed = parse(text);
  RC_LOG() << text;
  if (!parsed.problems.empty()) RC_FAIL(to_text(parsed.problems.front()));
  RC_ASSERT(parsed.sketch == made);
  RC_ASSERT(print(parsed.sketch) == text);
}

RC_GTEST_PROP(RoundTrip, JsonIsReadBack, (std::uint64_t seed)) {
  const Sketch made = Maker(seed).sketch();
  const std::string json = to_json(made);
  const Parsed parsed = read_json(json);
  RC_LOG() << json;
  if (!parsed.problems.empty()) RC_FAIL(to_text(parsed.problems.front()));
  RC_ASSERT(parsed.sketch == made);
  RC_ASSERT(to_json(parsed.sketch) == json);
}

}  // namespace
}  // namespace lares::sketch
