#include "sketch/signature.h"

#include <algorithm>
#include <array>

namespace lares::sketch {
namespace {

using Words = std::string_view;

constexpr std::array<Words, 2> kPreviews{"proj", "vae"};
constexpr std::array<Words, 1> kOff{"off"};
constexpr std::array<Words, 4> kSamplers{"ddim", "euler", "euler_a", "lcm"};
constexpr std::array<Words, 3> kFilters{"nearest", "bilinear", "bicubic"};

constexpr KeySpec kModelKey{"model", kModel, "a model's name in quotes"};

constexpr std::array<KeySpec, 2> kEncodeKeys{
    {{"no", kWords, "a text: what should not be seen"}, kModelKey}};
constexpr std::array<KeySpec, 6> kSampleKeys{
    {{"cfg", kNumeral | kChoice, "a number, or `off`", kOff},
     {"seed", kWhole | kWholes, "a whole number, or a list of them"},
     {"from", kNumeral, "a level of noise between 0 and 1"},
     {"until", kWhole, "the number of steps after which to stop"},
     {"preview", kChoice, "`proj` or `vae`", kPreviews},
     {"every", kTime, "a time, as in 300ms"}}};
constexpr std::array<KeySpec, 6> kAskKeys{{{"system", kWords, "a text"},
                                           {"max", kWhole, "the most tokens to write"},
                                           {"temp", kNumeral, "a temperature, as in 0.7"},
                                           {"seed", kWhole, "a whole number"},
                                           {"json", kSchema, "a JSON schema: a text or a Json"},
                                           kModelKey}};
constexpr std::array<KeySpec, 1> kModelKeys{{kModelKey}};
constexpr std::array<KeySpec, 1> kChunkKeys{
    {{"overlap", kWhole, "how many tokens two chunks share"}}};

constexpr std::array<StageSpec, 12> kStages{{
    {.name = "encode", .has_model = true, .keys = kEncodeKeys},
    {.name = "sample",
     .number = kWhole,
     .number_wants = "a number of steps, as in 20",
     .choices = kSamplers,
     .choice_name = "sampler",
     .keys = kSampleKeys},
    {.name = "resize",
     .number = kFactor | kSize,
     .number_wants = "a factor or a size, as in 2x or 768x512",
     .choices = kFilters,
     .choice_name = "filter"},
    {.name = "latent", .has_model = true, .keys = kModelKeys},
    {.name = "pixels"},
    {.name = "blend", .number = kNumeral, .number_wants = "a weight between 0 and 1"},
    {.name = "walk", .number = kWhole, .number_wants = "a number of frames, as in 12"},
    {.name = "ask", .has_model = true, .model = ModelKind::Chat, .keys = kAskKeys},
    {.name = "embed", .has_model = true, .model = ModelKind::Embed, .keys = kModelKeys},
    {.name = "chunk",
     .number = kWhole,
     .number_wants = "a number of tokens, as in 512",
     .keys = kChunkKeys},
    {.name = "transcribe", .later = true},
    {.name = "speak", .later = true},
}};

constexpr std::array<KeySpec, 1> kQuality{{{"q", kWhole, "a quality from 1 to 100"}}};
constexpr std::array<KeySpec, 2> kWebp{
    {{"q", kWhole, "a quality from 1 to 100"}, {"fps", kNumeral, "pictures a second"}}};

constexpr std::array<MediumSpec, 8> kMedia{{{"png", {}, true},
                                            {"webp", kWebp, true},
                                            {"jpeg", kQuality, true},
                                            {"txt"},
                                            {"json"},
                                            {"npy"},
                                            {.name = "wav", .later = true},
                                            {.name = "opus", .later = true}}};

constexpr std::array<Words, 5> kLineWords{"use", "in", "out", "keep", "want"};
constexpr std::array<Words, 7> kTypes{"Text",  "Cond",      "Latent", "Pixels",
                                      "Audio", "Embedding", "Json"};
constexpr std::array<Words, 4> kDtypes{"f32", "f16", "bf16", "q8_0"};
constexpr std::array<Words, 5> kWishes{"draft", "fine", "under", "exact", "approx"};
constexpr std::array<Words, 4> kOthers{"at", "fit", "clean", "sketch"};

bool has(std::span<const Words> words, Words word) {
  return std::ranges::find(words, word) != words.end();
}

template <class Specs>
auto find_named(const Specs& specs, Words name) {
  const auto found = std::ranges::find(specs, name, [](const auto& spec) { return spec.name; });
  return found == specs.end() ? nullptr : &*found;
}

}  // namespace

std::span<const StageSpec> stages() {
  return kStages;
}
const StageSpec* find_stage(std::string_view name) {
  return find_named(kStages, name);
}
const KeySpec* find_key(std::span<const KeySpec> keys, std::string_view name) {
  return find_named(keys, name);
}
std::span<const MediumSpec> media() {
  return kMedia;
}
const MediumSpec* find_medium(std::string_view name) {
  return find_named(kMedia, name);
}
std::span<const std::string_view> line_words() {
  return kLineWords;
}
std::span<const std::string_view> type_names() {
  return kTypes;
}
std::span<const std::string_view> dtypes() {
  return kDtypes;
}
std::span<const std::string_view> wishes() {
  return kWishes;
}

std::string_view reserved_as(std::string_view word) {
  if (word == "lat") return "the beginning of a latent's handle";
  if (has(kLineWords, word) || has(kOthers, word)) return "a word of the language";
  if (has(kTypes, word)) return "a type";
  if (find_stage(word) != nullptr) return "a stage";
  if (find_medium(word) != nullptr) return "a medium";
  if (has(kWishes, word)) return "a word of `want`";
  for (const StageSpec& stage : kStages) {
    if (find_key(stage.keys, word) != nullptr) return "a key of a stage";
  }
  for (const MediumSpec& medium : kMedia) {
    if (find_key(medium.keys, word) != nullptr) return "a key of `out`";
  }
  return "";
}

}  // namespace lares::sketch
