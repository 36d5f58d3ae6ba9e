#include "app/scenario.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

// Header-only: Debian's shared library is built with exceptions.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "core/text.h"
#include "sched/classes.h"

namespace lares::app {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20U;
constexpr std::array<std::string_view, 14> kKeys{
    "member", "class", "weight", "per_minute", "burst",         "poisson", "on",
    "off",    "from",  "until",  "prompt",     "prompt_spread", "output",  "output_spread"};

tl::unexpected<Error> at(const std::string& name, const toml::node& node,
                         std::string_view message) {
  return fail(Code::Invalid, fmt::format("{}:{}: {}", name, node.source().begin.line, message));
}

Result<std::uint32_t> whole(const std::string& name, std::string_view key, const toml::node& node) {
  const auto* number = node.as_integer();
  if (number == nullptr || number->get() < 0 || number->get() > 100'000'000)
    return at(name, node, fmt::format("{} must be a whole number, 0 or more", key));
  return static_cast<std::uint32_t>(number->get());
}

Result<Duration> time(const std::string& name, std::string_view key, const toml::node& node) {
  const auto* string = node.as_string();
  const auto duration = string != nullptr ? parse_duration(string->get()) : std::nullopt;
  if (!duration) return at(name, node, fmt::format("{} must be a time such as \"30s\"", key));
  return *duration;
}

Result<std::uint32_t> class_index(const std::string& name, const toml::node& node) {
  const auto classes = sched::household_classes();
  const auto* string = node.as_string();
  const auto found = std::ranges::find(classes, string != nullptr ? string->get() : std::string(),
                                       &sched::ClassSpec::name);
  if (found == classes.end())
    return at(name, node, "class must be voice, chat, agent, embedding, image or maintenance");
  return static_cast<std::uint32_t>(found - classes.begin());
}

Result<> read_key(const std::string& name, std::string_view key, const toml::node& node,
                  sim::Source& source) {
  if (key == "member") {
    const auto* string = node.as_string();
    if (string == nullptr) return at(name, node, "member must be a name in quotes");
    source.member = string->get();
  } else if (key == "poisson") {
    const auto* boolean = node.as_boolean();
    if (boolean == nullptr) return at(name, node, "poisson must be true or false");
    source.poisson = boolean->get();
  } else if (key == "class") {
    source.cls = TRY(class_index(name, node));
  } else if (key == "on" || key == "off" || key == "from" || key == "until") {
    Duration& target = key == "on"     ? source.on
                       : key == "off"  ? source.off
                       : key == "from" ? source.from
                                       : source.until;
    target = TRY(time(name, key, node));
  } else {
    const std::uint32_t number = TRY(whole(name, key, node));
    if (key == "weight") source.weight = number;
    if (key == "per_minute") source.per_minute = number;
    if (key == "burst") source.burst = std::max(number, 1U);
    if (key == "prompt") source.prompt = number;
    if (key == "prompt_spread") source.prompt_spread = number;
    if (key == "output") source.output = number;
    if (key == "output_spread") source.output_spread = number;
    if (key == "weight" && number == 0) return at(name, node, "weight must be 1 or more");
  }
  return {};
}

Result<sim::Source> read_source(const std::string& name, const toml::table& table) {
  sim::Source source;
  for (const auto& [key, node] : table) {
    const std::string_view word = key.str();
    if (std::ranges::find(kKeys, word) == kKeys.end())
      return at(name, node, fmt::format("there is no key `{}`.{}", word, suggestion(word, kKeys)));
    TRY_VOID(read_key(name, word, node, source));
  }
  if (source.member.empty()) return at(name, table, "a source needs a member");
  return source;
}

}  // namespace

Result<sim::Workload> read_scenario(std::string_view text, const std::string& name,
                                    std::uint32_t seed) {
  if (text.size() > kFileBytesMax)
    return fail(Code::TooLarge, fmt::format("{} is larger than a scenario may be, 1 MiB", name));
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return fail(Code::Invalid, fmt::format("{}:{}: {}", name, parsed.error().source().begin.line,
                                           parsed.error().description()));
  }
  const toml::table& table = parsed.table();
  Duration length = std::chrono::minutes(5);
  std::vector<sim::Source> sources;
  for (const auto& [key, node] : table) {
    if (key.str() == "length") {
      length = TRY(time(name, "length", node));
    } else if (const auto* array = node.as_array(); key.str() == "source" && array != nullptr) {
      for (const toml::node& item : *array) {
        if (!item.is_table()) return at(name, item, "a source is a [[source]] table");
        sources.push_back(TRY(read_source(name, *item.as_table())));
      }
    } else {
      return at(name, node,
                fmt::format("there is no key `{}`; there are length and [[source]]", key.str()));
    }
  }
  if (sources.empty()) return fail(Code::Invalid, fmt::format("{} has no [[source]]", name));
  return sim::generate(name, sources, length, seed);
}

}  // namespace lares::app
