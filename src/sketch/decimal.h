// Exact decimal numbers with at most six places: what a sketch writes as 0.55 or 7.5 stays that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lares::sketch {

// units / 10^places. Normal form: no trailing zero among the places, so equal numbers are equal
// values. Never negative.
struct Decimal {
  std::int64_t units = 0;
  std::uint8_t places = 0;

  bool operator==(const Decimal&) const = default;

  // "0.55", "12"; nothing for anything else, for more than six places, or what does not fit.
  static std::optional<Decimal> parse(std::string_view text);
  static Decimal whole(std::int64_t n) { return {n, 0}; }
  static Decimal millionths(std::int64_t n);

  [[nodiscard]] bool is_whole() const { return places == 0; }
  // Nothing if that does not fit.
  [[nodiscard]] std::optional<std::int64_t> in_millionths() const;
  [[nodiscard]] std::string text() const;
};

// a * b / c, rounded to nearest, without overflow on the way; at most the largest number there is.
std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c);

}  // namespace lares::sketch
