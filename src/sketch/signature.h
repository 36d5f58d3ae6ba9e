// The table of stages, media and words: what the parser, the planner and the messages go by.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lares::sketch {

// What a key or a place takes; may be several.
enum Takes : std::uint32_t {
  kNothing = 0,
  kWhole = 1U << 0U,    // 20
  kNumeral = 1U << 1U,  // 0.55
  kFactor = 1U << 2U,   // 2x
  kTime = 1U << 3U,     // 300ms
  kSize = 1U << 4U,     // 512x512
  kWords = 1U << 5U,    // A text, or what gives one.
  kWholes = 1U << 6U,   // [1 2 3]
  kChoice = 1U << 7U,   // One of `choices`.
  kSchema = 1U << 8U,   // A text or a Json.
  kModel = 1U << 9U,    // A model's name, quoted.
};

struct KeySpec {
  std::string_view name;
  std::uint32_t takes = kNothing;
  std::string_view wants;  // "a whole number or a list of them": for messages.
  std::span<const std::string_view> choices{};
};

enum class ModelKind : std::uint8_t { Image, Chat, Embed };

struct StageSpec {
  std::string_view name;
  // The number by position: what it is called, and what it may be.
  std::uint32_t number = kNothing;
  std::string_view number_wants{};  // "the number of steps, as in `sample c 20`"
  std::span<const std::string_view> choices{};
  std::string_view choice_name{};  // "sampler"
  bool has_model = false;          // A configured model's name may stand by itself.
  ModelKind model = ModelKind::Image;
  std::span<const KeySpec> keys{};
  bool later = false;  // Known, and not there yet.
};

std::span<const StageSpec> stages();
const StageSpec* find_stage(std::string_view name);
const KeySpec* find_key(std::span<const KeySpec> keys, std::string_view name);

struct MediumSpec {
  std::string_view name;
  std::span<const KeySpec> keys{};
  bool picture = false;
  bool later = false;
};
std::span<const MediumSpec> media();
const MediumSpec* find_medium(std::string_view name);

std::span<const std::string_view> line_words();  // use, in, out, keep, want
std::span<const std::string_view> type_names();
std::span<const std::string_view> dtypes();
std::span<const std::string_view> wishes();

// What a reserved word is: "a stage", "a key of `sample`"; "" if it is not reserved.
std::string_view reserved_as(std::string_view word);

template <class Specs>
std::vector<std::string_view> names_of(const Specs& specs) {
  std::vector<std::string_view> names;
  for (const auto& spec : specs) names.push_back(spec.name);
  return names;
}

}  // namespace lares::sketch
