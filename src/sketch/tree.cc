#include "sketch/tree.h"

#include <array>

#include <fmt/format.h>

#include "sketch/unicode.h"

namespace lares::sketch {
namespace {

constexpr std::array<std::string_view, 7> kUnits{"", "x", "ms", "s", "m", "h", "d"};
// In milliseconds; the first two are no times.
constexpr std::array<std::int64_t, 7> kMilliseconds{0, 0, 1, 1000, 60000, 3600000, 86400000};
constexpr std::int64_t kCentury = std::int64_t{36525} * 86400000;

Value made(Value::Kind kind, Place place) {
  Value value;
  value.kind = kind;
  value.place = place;
  return value;
}

}  // namespace

std::string_view unit_name(Unit unit) {
  return kUnits.at(static_cast<std::size_t>(unit));
}

std::optional<Unit> unit_of(std::string_view name) {
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    if (kUnits[i] == name) return static_cast<Unit>(i);
  }
  return std::nullopt;
}

std::string Number::text() const {
  return value.text() + std::string(unit_name(unit));
}

std::optional<std::int64_t> nanoseconds(const Number& number) {
  const auto millionths = number.value.in_millionths();
  if (!number.is_time() || !millionths) return std::nullopt;
  const std::int64_t each = kMilliseconds.at(static_cast<std::size_t>(number.unit));
  if (scaled(*millionths, each, 1000000) > kCentury) return std::nullopt;
  return scaled(*millionths, each, 1);
}

std::string Size::text() const {
  return fmt::format("{}x{}", width, height);
}

Value Value::word(std::string name, Place place) {
  Value value = made(Kind::Word, place);
  value.text = std::move(name);
  return value;
}

Value Value::quoted(std::string raw, Place place) {
  Value value = made(Kind::Text, place);
  value.text = std::move(raw);
  return value;
}

Value Value::of(Number number, Place place) {
  Value value = made(Kind::Number, place);
  value.number = number;
  return value;
}

Value Value::of(Size size, Place place) {
  Value value = made(Kind::Size, place);
  value.size = size;
  return value;
}

Value Value::handle(std::string id, Place place) {
  Value value = made(Kind::Handle, place);
  value.text = std::move(id);
  return value;
}

Value Value::list(std::vector<Value> items, Place place) {
  Value value = made(Kind::List, place);
  value.items = std::move(items);
  return value;
}

Value Value::of(Flow flow, Place place) {
  Value value = made(Kind::Flow, place);
  value.flow.push_back(std::move(flow));
  return value;
}

// Written out: clang 14 crashes on a default that refers to itself through a vector.
bool Value::operator==(const Value& other) const {
  return kind == other.kind && text == other.text && number == other.number && size == other.size &&
         items == other.items && flow == other.flow;
}

Place place_of(const Flow& flow) {
  return flow.source ? flow.source->place : flow.stages.front().place;
}

std::optional<std::vector<Piece>> pieces_of(std::string_view raw) {
  std::vector<Piece> pieces;
  std::string words;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '{') {
      words += raw[i];
    } else if (raw.substr(i).starts_with("{{")) {
      words += '{';
      ++i;
    } else {
      const std::size_t end = raw.find('}', i);
      if (end == std::string_view::npos || !is_name(raw.substr(i + 1, end - i - 1))) {
        return std::nullopt;
      }
      if (!words.empty()) pieces.push_back({.insert = false, .text = std::move(words)});
      words.clear();
      pieces.push_back({.insert = true, .text = std::string(raw.substr(i + 1, end - i - 1))});
      i = end;
    }
  }
  if (!words.empty() || pieces.empty()) {
    pieces.push_back({.insert = false, .text = std::move(words)});
  }
  return pieces;
}

}  // namespace lares::sketch
