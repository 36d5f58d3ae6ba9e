// A sketch as plain values: what the text form and the JSON form both say.
//
// Normal form, which the parser and the JSON reader make and the printer relies on:
//   1. A Flow value (something in round brackets) has at least one stage; `(c)` is just `c`.
//   2. A flow's source is never a Flow value: `(a | b) | c` is `a | b | c`. Nor is it a list.
//   3. A flow has a source or at least one stage.
//   4. The first line has no gap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sketch/decimal.h"
#include "sketch/problem.h"

namespace lares::sketch {

enum class Unit : std::uint8_t { None, Factor, Milliseconds, Seconds, Minutes, Hours, Days };
// "x", "ms", "s", "m", "h", "d"; "" for None.
std::string_view unit_name(Unit unit);
std::optional<Unit> unit_of(std::string_view name);

struct Number {
  Decimal value;
  Unit unit = Unit::None;

  [[nodiscard]] bool is_time() const { return unit >= Unit::Milliseconds; }
  [[nodiscard]] std::string text() const;
  bool operator==(const Number&) const = default;
};
// In nanoseconds. Nothing if it is no time, or more than a century.
std::optional<std::int64_t> nanoseconds(const Number& number);

struct Size {
  std::uint32_t width = 0, height = 0;

  [[nodiscard]] std::string text() const;  // "512x512"
  bool operator==(const Size&) const = default;
};

struct Flow;

// One argument, element or source.
struct Value {
  enum class Kind : std::uint8_t { Word, Text, Number, Size, Handle, List, Flow };

  Kind kind = Kind::Word;
  Place place;
  // Word: the word. Text: with its escapes resolved, braces as written (`{name}`, `{{`). Handle:
  // the id after `lat:`.
  std::string text;
  Number number;
  Size size;
  std::vector<Value> items;  // List.
  std::vector<Flow> flow;    // Flow: exactly one.

  static Value word(std::string name, Place place = {});
  static Value quoted(std::string raw, Place place = {});
  static Value of(Number number, Place place = {});
  static Value of(Size size, Place place = {});
  static Value handle(std::string id, Place place = {});
  static Value list(std::vector<Value> items, Place place = {});
  static Value of(Flow flow, Place place = {});
  bool operator==(const Value& other) const;
};

struct Argument {
  std::string key;  // "" = by position.
  Place place;
  Value value;
  bool operator==(const Argument&) const = default;
};

struct Stage {
  std::string name;
  Place place;
  std::vector<Argument> arguments;
  bool operator==(const Stage&) const = default;
};

struct Flow {
  std::optional<Value> source;  // Absent: the first stage begins.
  std::vector<Stage> stages;
  bool operator==(const Flow&) const = default;
};
Place place_of(const Flow& flow);

// A type as written: a kind, and what of its details was said.
struct TypeNote {
  Place place;
  std::string kind;  // "Latent"
  std::uint8_t lists = 0;
  std::string what;  // Cond: encoder; Latent: space; Embedding: model. "" = not said.
  std::optional<Size> size;
  std::optional<std::uint32_t> count;  // Audio: rate; Embedding: width.
  std::string dtype;
  bool clean = false;      // Latent.
  std::optional<Size> at;  // Latent: step `width` of `height`.
  bool operator==(const TypeNote&) const = default;
};

struct Comment {
  std::string text;  // What follows the `#`.
  bool operator==(const Comment&) const = default;
};
struct Use {
  std::string model;
  Place place;  // Of the model.
  std::optional<Size> at;
  std::optional<std::uint32_t> fit;  // Longest side; with fit_name.
  std::string fit_name;
  Place at_place;
  std::string dtype;
  Place dtype_place;
  bool operator==(const Use&) const = default;
};
struct In {
  std::string name;
  Place place;
  TypeNote type;
  std::optional<Value> initial;  // A text, or a list of texts.
  bool operator==(const In&) const = default;
};
struct Bind {
  std::string name;
  Place place;
  std::optional<TypeNote> type;
  Flow flow;
  bool operator==(const Bind&) const = default;
};
struct Out {
  Flow flow;
  std::string medium;
  Place place;  // Of the medium.
  std::vector<Argument> arguments;
  bool operator==(const Out&) const = default;
};
struct Keep {
  std::string name;
  Place place;
  Number duration;
  bool operator==(const Keep&) const = default;
};
struct Wish {
  std::string word;
  Place place;
  std::optional<Number> limit;  // Of `under`.
  bool operator==(const Wish&) const = default;
};
struct Want {
  std::vector<Wish> wishes;
  bool operator==(const Want&) const = default;
};

struct Line {
  Place place;
  bool gap = false;                    // An empty line before it.
  std::optional<std::string> comment;  // After it, on the same line.
  std::variant<Comment, Use, In, Bind, Out, Keep, Want> what;
  bool operator==(const Line&) const = default;
};

struct Sketch {
  std::vector<Line> lines;
  bool operator==(const Sketch&) const = default;
};

// What a text's braces insert: pieces to be joined.
struct Piece {
  bool insert = false;  // `text` is a name, not words.
  std::string text;
};
// Nothing if a brace is neither doubled nor around a name.
std::optional<std::vector<Piece>> pieces_of(std::string_view raw);

}  // namespace lares::sketch
