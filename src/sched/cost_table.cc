#include "sched/cost_table.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include <fmt/format.h>

namespace lares::sched {
namespace {

constexpr std::int64_t kFirstNs = 10'000'000, kTokenNs = 500'000;
constexpr std::uint16_t kQuickObservations = 16;
constexpr std::int64_t kBound = 8;       // Times the probe's value, at most.
constexpr std::int64_t kLeastNs = 1000;  // No step is quicker.

// Nothing under a knot may be cheaper than what is before it.
void make_monotone(std::array<std::int64_t, CostTable::kKnots>& knots) {
  for (std::size_t i = 1; i < knots.size(); ++i) knots[i] = std::max(knots[i], knots[i - 1]);
}

bool read_number(std::string_view text, std::int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && out >= 0;
}

}  // namespace

CostTable::CostTable() {
  for (std::size_t i = 0; i < kKnots; ++i) knots_[i] = kFirstNs + kTokenNs * knot_tokens(i);
  probed_ = knots_;
}

Result<CostTable> CostTable::create(const std::array<std::int64_t, kKnots>& curve) {
  if (curve[0] <= 0) return fail(Code::Invalid, "the time of a step of one token is not known");
  CostTable table;
  table.knots_ = curve;
  for (std::size_t i = 1; i < kKnots; ++i) {
    if (curve[i] > 0) continue;
    // As steep as the last measured part; from one knot alone, in proportion.
    const std::int64_t slope =
        i >= 2 ? (table.knots_[i - 1] - table.knots_[i - 2]) / (knot_tokens(i - 1) / 2)
               : table.knots_[0];
    table.knots_[i] = table.knots_[i - 1] + slope * (knot_tokens(i) / 2);
  }
  make_monotone(table.knots_);
  table.probed_ = table.knots_;
  return table;
}

std::int64_t CostTable::curve(std::uint32_t tokens) const {
  if (tokens == 0) return 0;
  const auto below =
      std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(tokens)) - 1, kKnots - 2);
  const std::int64_t over = std::int64_t{tokens} - knot_tokens(below);
  return knots_[below] + (((knots_[below + 1] - knots_[below]) * over) >> below);
}

Duration CostTable::time(const StepShape& shape) const {
  if (shape.tokens == 0) return {};
  const auto attended = static_cast<std::int64_t>(shape.attended);
  std::int64_t ns = curve(shape.tokens);
  if (attended_ps != 0) ns += attended * attended_ps / 1000;
  if (span_ps != 0) ns += std::int64_t{shape.tokens} * shape.span * span_ps / 1000;
  if (shape.prompt > 0) ns += prompt_pass_ns;
  return Duration(ns);
}

std::uint32_t CostTable::prompt_within(Duration budget, StepShape shape, std::uint32_t from,
                                       std::uint32_t most) const {
  const auto fits = [&](std::uint32_t tokens) {
    return time({.tokens = shape.tokens + tokens,
                 .prompt = shape.prompt + tokens,
                 .attended = shape.attended + attended_by(from, tokens),
                 .span = shape.span + tokens}) <= budget;
  };
  if (most == 0 || fits(most)) return most;
  std::uint32_t low = 0, high = most;  // fits(low) or low == 0; not fits(high).
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

void CostTable::observe(const StepShape& shape, Duration took) {
  if (shape.tokens == 0 || took.count() <= 0) return;
  const std::int64_t predicted = time(shape).count();
  const auto below =
      std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(shape.tokens)) - 1, kKnots - 2);
  const std::uint32_t over = shape.tokens - knot_tokens(below);
  const auto nearest = below + (over * 2 >= knot_tokens(below) ? 1 : 0);
  std::int64_t& knot = knots_[nearest];
  if (seen_[nearest] < kQuickObservations) {
    ++seen_[nearest];
    // Half of the way, within a quarter up or down.
    const std::int64_t off = (took.count() - predicted) / 2;
    knot += std::clamp(off, -knot / 4, knot / 4);
  } else if (took.count() > predicted + predicted / 64) {
    knot += knot / 64;
  } else if (took.count() < predicted - predicted / 64) {
    knot -= knot / 64;
  }
  knot = std::clamp(knot, std::min(kLeastNs, probed_[nearest]), probed_[nearest] * kBound);
  estimate_unseen();
  for (std::size_t i = nearest; i-- > 0;) knots_[i] = std::min(knots_[i], knots_[i + 1]);
  make_monotone(knots_);
}

// What was never seen is as much quicker or slower than the probe said as the nearest knot that
// was: a probe on a busy machine is wrong everywhere, and steps that are thought to be slow are not
// tried.
void CostTable::estimate_unseen() {
  constexpr std::int64_t kUnit = 1024;
  for (std::size_t i = 0; i < kKnots; ++i) {
    if (seen_[i] > 0) continue;
    std::size_t away = 1;
    const auto known = [&](std::size_t knot) { return knot < kKnots && seen_[knot] > 0; };
    while (!known(i - away) && !known(i + away)) ++away;  // Below 0 it wraps to beyond the last.
    const std::size_t near = known(i - away) ? i - away : i + away;
    knots_[i] =
        probed_[i] * (knots_[near] * kUnit / std::max<std::int64_t>(probed_[near], 1)) / kUnit;
    knots_[i] = std::max(knots_[i], std::min(kLeastNs, probed_[i]));
  }
}

std::string CostTable::to_text() const {
  std::string text;
  for (std::size_t i = 0; i < kKnots; ++i) text += fmt::format("{}:{},", knot_tokens(i), knots_[i]);
  return text +
         fmt::format("attended={},span={},prompt_pass={}", attended_ps, span_ps, prompt_pass_ns);
}

Result<CostTable> CostTable::parse(std::string_view text) {
  std::array<std::int64_t, kKnots> curve{};
  CostTable rest;
  const auto field = [&](std::string_view word) -> bool {
    std::int64_t value = 0;
    for (std::size_t i = 0; i < kKnots; ++i) {
      const std::string name = fmt::format("{}:", knot_tokens(i));
      if (word.starts_with(name)) return read_number(word.substr(name.size()), curve[i]);
    }
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || !read_number(word.substr(equals + 1), value))
      return false;
    const std::string_view name = word.substr(0, equals);
    if (name == "attended") rest.attended_ps = value;
    if (name == "span") rest.span_ps = value;
    if (name == "prompt_pass") rest.prompt_pass_ns = value;
    return name == "attended" || name == "span" || name == "prompt_pass";
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, end);
    if (!word.empty() && !field(word))
      return fail(Code::Corrupt, fmt::format("cost table: `{}` cannot be read", word));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  CostTable table = TRY(create(curve));
  table.attended_ps = rest.attended_ps;
  table.span_ps = rest.span_ps;
  table.prompt_pass_ns = rest.prompt_pass_ns;
  return table;
}

bool CostTable::operator==(const CostTable& other) const {
  return knots_ == other.knots_ && attended_ps == other.attended_ps && span_ps == other.span_ps &&
         prompt_pass_ns == other.prompt_pass_ns;
}

}  // namespace lares::sched
