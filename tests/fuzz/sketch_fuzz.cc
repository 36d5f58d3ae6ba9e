#include "sketch_fuzz.h"

#include <algorithm>
#include <cstdint>

#include "core/assert.h"
#include "sketch/json_form.h"
#include "sketch/parser.h"
#include "sketch/planner.h"
#include "sketch/printer.h"
#include "sketch/test_catalogue.h"

namespace lares::fuzz {
namespace {

const sketch::Catalogue& catalogue() {
  static const sketch::Catalogue kCatalogue = sketch::test_catalogue();
  return kCatalogue;
}

void check_problems(const sketch::Problems& problems, std::string_view text) {
  const auto lines = static_cast<std::uint32_t>(1 + std::count(text.begin(), text.end(), '\n'));
  for (const sketch::Problem& problem : problems) {
    LARES_ASSERT(problem.place.line >= 1 && problem.place.line <= lines, "line {} of {}",
                 problem.place.line, lines);
    LARES_ASSERT(problem.place.column >= 1 && !problem.message.empty(), "column {}",
                 problem.place.column);
  }
}

void check_plan(const sketch::Sketch& read, std::string_view text) {
  const sketch::Planned planned = sketch::make_plan(read, catalogue());
  check_problems(planned.problems, text);
  if (!planned.problems.empty()) return;
  for (std::size_t i = 0; i < planned.plan.nodes.size(); ++i) {
    const sketch::Node& node = planned.plan.nodes[i];
    LARES_ASSERT(node.type.kind != sketch::Type::Kind::Unknown, "#{} has no type", i);
    for (const std::uint32_t input : node.inputs) LARES_ASSERT(input < i, "#{} from #{}", i, input);
  }
  LARES_ASSERT(!sketch::to_text(planned.plan).empty(), "no text");
  LARES_ASSERT(!sketch::to_json(planned.plan).empty(), "no JSON");
}

// Both forms of a sound sketch say the same.
void check_stable(const sketch::Sketch& read) {
  const std::string printed = sketch::print(read);
  // Canonical text may be longer than what was written, even than what is allowed.
  const sketch::Limits limits{.bytes = printed.size() + 1};
  const sketch::Parsed again = sketch::parse(printed, limits);
  LARES_ASSERT(again.problems.empty(), "printed, it is refused: {}\n{}",
               sketch::to_text(again.problems.front()), printed);
  LARES_ASSERT(again.sketch == read, "printed, it is another tree:\n{}", printed);
  LARES_ASSERT(sketch::print(again.sketch) == printed, "printing is not stable:\n{}", printed);
  const std::string json = sketch::to_json(read);
  const sketch::Parsed from_json = sketch::read_json(json, {.bytes = printed.size() + json.size()});
  LARES_ASSERT(from_json.problems.empty(), "its JSON is refused: {}\n{}",
               sketch::to_text(from_json.problems.front()), json);
  LARES_ASSERT(from_json.sketch == read, "its JSON is another tree:\n{}", json);
  check_plan(again.sketch, printed);
}

}  // namespace

void fuzz_sketch(std::string_view text) {
  const sketch::Parsed parsed = sketch::parse(text);
  check_problems(parsed.problems, text);
  if (!parsed.problems.empty()) return;
  check_stable(parsed.sketch);
  check_plan(parsed.sketch, text);
}

void fuzz_sketch_json(std::string_view text) {
  const sketch::Parsed parsed = sketch::read_json(text);
  check_problems(parsed.problems, text);
  if (parsed.problems.empty()) check_stable(parsed.sketch);
}

}  // namespace lares::fuzz

#ifdef LARES_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
#ifdef LARES_FUZZ_JSON
  lares::fuzz::fuzz_sketch_json(text);
#else
  lares::fuzz::fuzz_sketch(text);
#endif
  return 0;
}
#endif
