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
// Each token of a step attends to so many positions: what they cost shows.
constexpr std::uint64_t kFarBack = 512;
// Fewer positions than these say nothing of what mixing costs.
constexpr std::uint64_t kTellingPositions = 256;
// What a price moves by at least, so that one that came down to nothing can rise again.
constexpr std::int64_t kLittlePs = 5'000;
constexpr std::int64_t kMostPs = 1'000'000'000;  // A millisecond a position.

// Nothing under a knot may be cheaper than what is before it.
void make_monotone(CostCurve::Knots& knots) {
  for (std::size_t i = 1; i < knots.size(); ++i) knots[i] = std::max(knots[i], knots[i - 1]);
}

std::size_t knot_below(std::uint32_t tokens) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(tokens)) - 1,
                               CostCurve::kKnots - 2);
}

std::int64_t of_positions(std::int64_t each_ps, std::uint64_t positions) {
  return each_ps == 0 ? 0 : static_cast<std::int64_t>(positions) * each_ps / 1000;
}

// A price by which so many positions were `off` nanoseconds wrong, as CostCurve::observe().
void correct(std::int64_t& each_ps, std::uint16_t& seen, std::int64_t off,
             std::uint64_t positions) {
  const std::int64_t each_off = off * 1000 / static_cast<std::int64_t>(positions);
  if (seen < kQuickObservations) {
    ++seen;
    each_ps += each_off / 2;
  } else {
    const std::int64_t little = std::max(each_ps / 64, kLittlePs);
    each_ps += std::clamp(each_off, -little, little);
  }
  each_ps = std::clamp<std::int64_t>(each_ps, 0, kMostPs);
}

bool read_number(std::string_view text, std::int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && out >= 0;
}

CostCurve::Knots stand_in() {
  CostCurve::Knots knots{};
  for (std::size_t i = 0; i < knots.size(); ++i)
    knots[i] = kFirstNs + kTokenNs * CostCurve::knot_tokens(i);
  return knots;
}

}  // namespace

void StepShape::add(std::uint32_t from, std::uint32_t more) {
  tokens += more;
  if (more > 1) prompt += more;
  attended += attended_by(from, more);
  if (more == 1) decoded += attended_by(from, 1);
}

StepShape StepShape::with_prompt(std::uint32_t from, std::uint32_t more) const {
  StepShape both = *this;
  both.tokens += more;
  both.prompt += more;
  both.attended += attended_by(from, more);
  both.span += more;
  return both;
}

void StepShape::remove(std::uint32_t from, std::uint32_t less, bool of_prompt) {
  tokens -= less;
  if (of_prompt) prompt -= less;
  attended -= attended_by(from, less);
  if (!of_prompt) decoded -= attended_by(from, less);
}

// --- Curves --------------------------------------------------------------------------------------

CostCurve::CostCurve(Knots measured) : knots_(measured) {
  for (std::size_t i = 1; i < kKnots; ++i) {
    if (knots_[i] > 0) continue;
    // As steep as the last measured part; from one knot alone, in proportion.
    const std::int64_t slope =
        i >= 2 ? (knots_[i - 1] - knots_[i - 2]) / (knot_tokens(i - 1) / 2) : knots_[0];
    knots_[i] = knots_[i - 1] + slope * (knot_tokens(i) / 2);
  }
  make_monotone(knots_);
  probed_ = knots_;
}

std::int64_t CostCurve::at(std::uint32_t tokens) const {
  if (tokens == 0) return 0;
  const std::size_t below = knot_below(tokens);
  const std::int64_t over = std::int64_t{tokens} - knot_tokens(below);
  return knots_[below] + (((knots_[below + 1] - knots_[below]) * over) >> below);
}

void CostCurve::observe(std::uint32_t tokens, std::int64_t predicted, std::int64_t off) {
  const std::size_t below = knot_below(tokens);
  const std::uint32_t over = tokens - knot_tokens(below);
  const auto nearest = below + (over * 2 >= knot_tokens(below) ? 1 : 0);
  std::int64_t& knot = knots_[nearest];
  if (seen_[nearest] < kQuickObservations) {
    ++seen_[nearest];
    // Half of the way, within a quarter up or down.
    knot += std::clamp(off / 2, -knot / 4, knot / 4);
  } else if (off > predicted / 64) {
    knot += knot / 64;
  } else if (off < -predicted / 64) {
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
void CostCurve::estimate_unseen() {
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

// --- The table -----------------------------------------------------------------------------------

CostTable::CostTable() : decodes_(stand_in()), prompts_(stand_in()) {}

Result<CostTable> CostTable::create(const CostCurve::Knots& both) {
  return create(both, both);
}

Result<CostTable> CostTable::create(const CostCurve::Knots& decodes,
                                    const CostCurve::Knots& prompts) {
  if (decodes[0] <= 0 || prompts[0] <= 0)
    return fail(Code::Invalid, "the time of a step of one token is not known");
  return CostTable(CostCurve(decodes), CostCurve(prompts));
}

Result<CostTable> CostTable::fit(std::span<const Probe> steps) {
  CostCurve::Knots decodes{}, prompts{};
  const auto near = [](const StepShape& shape) {  // What its tokens attend to among themselves.
    return shape.prompt == 0 ? shape.tokens : attended_by(0, shape.tokens);
  };
  const auto both = [](const StepShape& s) { return s.prompt > 0 && s.prompt < s.tokens; };
  for (const auto& [shape, took] : steps) {
    const auto knot = static_cast<std::size_t>(std::bit_width(shape.tokens)) - 1;
    if (!std::has_single_bit(shape.tokens) || knot >= kKnots || both(shape) ||
        shape.attended > near(shape))
      continue;
    (shape.prompt == 0 ? decodes : prompts)[knot] = took.count();
  }
  if (prompts[0] == 0) {  // A prompt of one token would be a decode: drawn on from two and four.
    const std::int64_t slope = (prompts[2] - prompts[1]) / 2;
    prompts[0] = prompts[2] > 0 ? std::max(prompts[1] - slope, prompts[1] / 2) : decodes[0];
  }
  CostTable table = TRY(create(decodes, prompts));
  table.short_attended_ps = -1;
  // Attending far back shows what a position costs, and that is taken off the curves.
  for (const auto& [shape, took] : steps) {
    if (both(shape) || shape.attended <= near(shape)) continue;
    const bool decode = shape.prompt == 0;
    const std::int64_t without = (decode ? table.decodes_ : table.prompts_).at(shape.tokens);
    (decode                       ? table.decode_attended_ps
     : shape.tokens < kTileTokens ? table.short_attended_ps
                                  : table.prompt_attended_ps) =
        std::max<std::int64_t>(took.count() - without, 0) * 1000 /
        static_cast<std::int64_t>(shape.attended - near(shape));
  }
  if (table.short_attended_ps < 0) table.short_attended_ps = table.prompt_attended_ps;
  for (std::size_t k = 0; k < kKnots; ++k) {
    const std::int64_t each =
        knot_tokens(k) < kTileTokens ? table.short_attended_ps : table.prompt_attended_ps;
    const std::int64_t own = of_positions(each, attended_by(0, knot_tokens(k)));
    if (prompts[k] > 0) prompts[k] = std::max(prompts[k] - own, prompts[k] / 4);
  }
  table.prompts_ = CostCurve(prompts);
  // What mixing costs is what is left.
  for (const auto& [shape, took] : steps) {
    if (!both(shape) || shape.decoded == 0) continue;
    table.mixed_ps = std::max<std::int64_t>((took - table.time(shape)).count(), 0) * 1000 /
                     static_cast<std::int64_t>(shape.decoded);
  }
  return table;
}

std::int64_t CostTable::time_of(const StepShape& shape, bool tiles) const {
  const std::uint32_t decodes = shape.tokens - shape.prompt;
  std::int64_t ns =
      decodes_.at(decodes) + of_positions(decode_attended_ps, shape.decoded) +
      of_positions(tiles ? prompt_attended_ps : short_attended_ps, shape.attended - shape.decoded);
  if (span_ps != 0) ns += std::int64_t{shape.tokens} * shape.span * span_ps / 1000;
  if (shape.prompt > 0) {
    ns += prompts_.at(shape.tokens) - prompts_.at(decodes) + prompt_pass_ns;
    if (decodes > 0 && tiles) ns += of_positions(mixed_ps, shape.decoded);
  }
  return ns;
}

std::int64_t CostTable::marginal(const StepShape& shape, std::int64_t whole, std::uint32_t from,
                                 std::uint32_t tokens, bool prompt) const {
  StepShape rest = shape;
  rest.remove(from, tokens, prompt);
  return std::max<std::int64_t>(whole - time_of(rest, shape.tokens >= kTileTokens), 0);
}

std::uint32_t CostTable::prompt_within(Duration budget, const StepShape& shape, std::uint32_t from,
                                       std::uint32_t most) const {
  const auto fits = [&](std::uint32_t more) {
    return time(shape.with_prompt(from, more)) <= budget;
  };
  if (most == 0 || fits(most)) return most;
  // Within a tile's tokens and beyond them, more take longer; but filling a tile may be quicker.
  const std::uint32_t tile = kTileTokens - std::min(kTileTokens, shape.tokens);
  std::uint32_t low = 0, high = most;  // fits(low) or low == 0; not fits(high).
  if (tile > 0 && tile < most) (fits(tile) ? low : high) = tile;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

std::uint32_t CostTable::fill_tile(const StepShape& shape, std::uint32_t from, std::uint32_t tokens,
                                   std::uint32_t most) const {
  const std::uint32_t tile = kTileTokens - std::min(kTileTokens, shape.tokens);
  if (!has_tiles() || tokens == 0 || tokens >= tile || tile > most) return tokens;
  const auto with = [&](std::uint32_t more) { return time(shape.with_prompt(from, more)).count(); };
  const std::int64_t given = with(tokens), filled = with(tile);
  return filled * 2 <= given * 3 && filled * 3 * tokens <= given * 2 * tile ? tile : tokens;
}

bool CostTable::better_apart(const StepShape& decodes, std::uint32_t prompt) const {
  const StepShape alone = StepShape{.span = decodes.span}.with_prompt(0, prompt);
  return time(decodes.with_prompt(0, prompt)) > time(decodes) + time(alone);
}

std::uint32_t CostTable::knee(std::uint32_t most) const {
  std::int64_t best = decodes_.at(1);
  for (std::uint32_t n = 1; n <= most; n *= 2) best = std::min(best, decodes_.at(n) / n);
  std::uint32_t n = 1;
  while (n * 2 <= most && decodes_.at(n) / n > best + best * 3 / 4) n *= 2;
  return n;
}

void CostTable::observe(const StepShape& shape, Duration took) {
  if (shape.tokens == 0 || took.count() <= 0) return;
  const std::int64_t predicted = time(shape).count();
  const std::int64_t off = took.count() - predicted;
  const bool wrong = std::abs(off) > predicted / 64;
  if (shape.prompt > 0 && shape.prompt < shape.tokens) {
    if (wrong && shape.tokens >= kTileTokens && shape.decoded >= kTellingPositions)
      correct(mixed_ps, seen_mixed_, off, shape.decoded);
    return;
  }
  const bool decodes = shape.prompt == 0;
  const bool is_short = shape.tokens < kTileTokens;
  std::int64_t& each = decodes    ? decode_attended_ps
                       : is_short ? short_attended_ps
                                  : prompt_attended_ps;
  // Far back it is attending that is wrong; unless it costs too little already to be that.
  const bool far_back = shape.attended >= kFarBack * shape.tokens;
  if (far_back && (off > 0 || of_positions(each, shape.attended) > -off)) {
    std::uint16_t& seen = decodes ? seen_decode_ : is_short ? seen_short_ : seen_prompt_;
    if (wrong) correct(each, seen, off, shape.attended);
  } else {
    (decodes ? decodes_ : prompts_).observe(shape.tokens, predicted, off);
  }
}

std::string CostTable::to_text() const {
  std::string text;
  for (std::size_t i = 0; i < kKnots; ++i)
    text += fmt::format("{}:{},", knot_tokens(i), decodes_.knots()[i]);
  for (std::size_t i = 0; i < kKnots; ++i)
    text += fmt::format("p{}:{},", knot_tokens(i), prompts_.knots()[i]);
  return text +
         fmt::format(
             "attended={},prompt_attended={},short_attended={},mixed={},span={},prompt_pass={}",
             decode_attended_ps, prompt_attended_ps, short_attended_ps, mixed_ps, span_ps,
             prompt_pass_ns);
}

Result<CostTable> CostTable::parse(std::string_view text) {
  CostCurve::Knots decodes{}, prompts{};
  CostTable rest;
  rest.prompt_attended_ps = rest.short_attended_ps = -1;
  const std::array<std::pair<std::string_view, std::int64_t*>, 6> prices{
      {{"attended", &rest.decode_attended_ps},
       {"prompt_attended", &rest.prompt_attended_ps},
       {"short_attended", &rest.short_attended_ps},
       {"mixed", &rest.mixed_ps},
       {"span", &rest.span_ps},
       {"prompt_pass", &rest.prompt_pass_ns}}};
  const auto field = [&](std::string_view word) -> bool {
    std::int64_t value = 0;
    const std::size_t split = word.find_first_of(":=");
    if (split == std::string_view::npos || !read_number(word.substr(split + 1), value))
      return false;
    const std::string_view name = word.substr(0, split);
    for (std::size_t i = 0; word[split] == ':' && i < kKnots; ++i) {
      const std::string tokens = fmt::format("{}", knot_tokens(i));
      if (name == tokens) return (decodes[i] = value, true);
      if (name == "p" + tokens) return (prompts[i] = value, true);
    }
    const auto known =
        std::ranges::find(prices, name, &std::pair<std::string_view, std::int64_t*>::first);
    if (word[split] != '=' || known == prices.end()) return false;
    *known->second = value;
    return true;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, end);
    if (!word.empty() && !field(word))
      return fail(Code::Corrupt, fmt::format("cost table: `{}` cannot be read", word));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  CostTable table = TRY(create(decodes, prompts[0] > 0 ? prompts : decodes));
  table.decode_attended_ps = rest.decode_attended_ps;
  table.prompt_attended_ps =
      rest.prompt_attended_ps < 0 ? rest.decode_attended_ps : rest.prompt_attended_ps;
  table.short_attended_ps =
      rest.short_attended_ps < 0 ? table.prompt_attended_ps : rest.short_attended_ps;
  table.mixed_ps = rest.mixed_ps;
  table.span_ps = rest.span_ps;
  table.prompt_pass_ns = rest.prompt_pass_ns;
  return table;
}

bool CostTable::operator==(const CostTable& other) const {
  return decodes_.knots() == other.decodes_.knots() && prompts_.knots() == other.prompts_.knots() &&
         decode_attended_ps == other.decode_attended_ps &&
         prompt_attended_ps == other.prompt_attended_ps &&
         short_attended_ps == other.short_attended_ps && mixed_ps == other.mixed_ps &&
         span_ps == other.span_ps && prompt_pass_ns == other.prompt_pass_ns;
}

}  // namespace lares::sched
