#include "sketch/problem.h"

#include <array>

#include <fmt/format.h>

#include "core/text.h"

namespace lares::sketch {

std::string_view check_name(Check check) {
  static constexpr std::array<std::string_view, 17> kNames{"L1", "L2", "N1", "N2", "N3", "T1",
                                                           "T2", "T3", "S1", "P1", "B1", "C1",
                                                           "C2", "M1", "Q1", "D1", "E1"};
  return kNames.at(static_cast<std::size_t>(check));
}

std::string to_text(const Problem& problem) {
  std::string out = fmt::format("{} line {}, column {}: ", check_name(problem.check),
                                problem.place.line, problem.place.column);
  for (const char c : problem.message) {
    out += c;
    if (c == '\n') out += "   ";
  }
  return out;
}

std::string hint(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string near = suggestion(word, candidates);
  return near.empty() ? near : '.' + near;
}

std::string hint(std::string_view word, const std::vector<std::string_view>& candidates) {
  return hint(word, std::span(candidates));
}

std::string one_of(const std::vector<std::string_view>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != 0) out += i + 1 == words.size() ? " or " : ", ";
    out += fmt::format("`{}`", words[i]);
  }
  return out;
}

}  // namespace lares::sketch
