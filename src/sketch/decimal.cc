#include "sketch/decimal.h"

#include <limits>

#include <fmt/format.h>

#include "core/assert.h"

namespace lares::sketch {
namespace {

constexpr std::uint8_t kPlacesMax = 6;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

Decimal normal(Decimal d) {
  while (d.places > 0 && d.units % 10 == 0) {
    d.units /= 10;
    --d.places;
  }
  return d;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal d;
  bool dot = false;
  std::size_t digits = 0;
  std::size_t last_digits = 0;  // Since the dot, or since the beginning.
  for (const char c : text) {
    if (c == '.') {
      if (dot || digits == 0) return std::nullopt;
      dot = true;
      last_digits = 0;
      continue;
    }
    if (c < '0' || c > '9' || (dot && d.places == kPlacesMax)) return std::nullopt;
    if (d.units > (kMost - (c - '0')) / 10) return std::nullopt;
    d.units = d.units * 10 + (c - '0');
    if (dot) ++d.places;
    ++digits;
    ++last_digits;
  }
  if (last_digits == 0) return std::nullopt;
  return normal(d);
}

Decimal Decimal::millionths(std::int64_t n) {
  return normal({n, kPlacesMax});
}

std::optional<std::int64_t> Decimal::in_millionths() const {
  std::int64_t n = units;
  for (std::uint8_t i = places; i < kPlacesMax; ++i) {
    if (n > kMost / 10) return std::nullopt;
    n *= 10;
  }
  return n;
}

std::string Decimal::text() const {
  if (places == 0) return fmt::format("{}", units);
  std::int64_t ten = 1;
  for (std::uint8_t i = 0; i < places; ++i) ten *= 10;
  return fmt::format("{}.{:0{}}", units / ten, units % ten, places);
}

std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) {
  LARES_ASSERT(c > 0 && a >= 0 && b >= 0, "{} * {} / {}", a, b, c);
  __extension__ using Wide = __int128;
  const Wide exact = (static_cast<Wide>(a) * b + c / 2) / c;
  return exact > kMost ? kMost : static_cast<std::int64_t>(exact);
}

}  // namespace lares::sketch
