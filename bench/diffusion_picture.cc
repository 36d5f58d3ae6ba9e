// Draws pictures with the diffusion engine driven directly, without server or worker, and times it.
//
//   diffusion_picture FOLDER [--prompt TEXT] [--negative TEXT] [--seed N] [--steps N] [--cfg X]
//                     [--sampler ddim|euler|euler-ancestral|lcm] [--size WxH] [--count N]
//                     [--precision f32|f16|q8] [--threads N] [--slice MS] [--slice-max MS]
//                     [--out FILE.png] [--library FOLDER]
//
// COUNT pictures with seeds from SEED on are denoised as one batch and written side by side. Prints
// the median of a step, the text encoder's and the decoder's time, the longest stretch that could
// not be interrupted, and the memory in use.
#include <png.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/text.h"
#include "engine/diffusion/diffusion.h"

namespace {

using namespace lares;
using namespace lares::diffusion;

struct Wish {
  std::string folder;
  std::map<std::string, std::string> options = {
      {"--prompt", "a red apple"}, {"--negative", ""}, {"--seed", "1"},
      {"--steps", "20"},           {"--cfg", "3.5"},   {"--sampler", ""},
      {"--size", "0x0"},           {"--count", "1"},   {"--precision", "f16"},
      {"--threads", "1"},          {"--slice", "0"},   {"--slice-max", "0"},
      {"--out", "picture.png"},    {"--library", ""}};

  [[nodiscard]] const std::string& text(const std::string& name) const { return options.at(name); }
  [[nodiscard]] std::uint32_t number(const std::string& name) const {
    return static_cast<std::uint32_t>(std::strtoul(text(name).c_str(), nullptr, 10));
  }
  [[nodiscard]] Duration milliseconds(const std::string& name) const {
    return std::chrono::milliseconds(number(name));
  }
};

struct Timed {
  Duration took{}, longest{};
  std::vector<Stepped> stepped;
};

// One pass to its end, in slices as wished.
Result<Timed> pass(Engine& engine, const std::vector<Handle>& handles, Duration slice) {
  TRY_VOID(engine.step(handles));
  Timed out;
  for (;;) {
    Sliced sliced = TRY(engine.slice(slice));
    out.took += sliced.took;
    out.longest = std::max(out.longest, sliced.longest);
    if (!sliced.done) continue;
    out.stepped = std::move(sliced.stepped);
    return out;
  }
}

Result<> write_png(const std::string& path, const std::vector<Image>& images) {
  const Size one = images[0].size;
  const std::size_t row = std::size_t{3} * one.width;
  std::vector<std::uint8_t> rgb;
  for (std::size_t y = 0; y < one.height; ++y) {
    for (const Image& image : images) {
      const auto* begin = image.rgb.data() + y * row;
      rgb.insert(rgb.end(), begin, begin + row);
    }
  }
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(one.width * images.size());
  png.height = one.height;
  png.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&png, path.c_str(), 0, rgb.data(), 0, nullptr) != 0) return {};
  return fail(Code::Io, fmt::format("{}: {}", path, png.message));
}

Result<LoadSpec> load_spec(const Wish& wish) {
  const std::map<std::string, Precision> precisions = {
      {"f32", Precision::F32}, {"f16", Precision::F16}, {"q8", Precision::Q8}};
  const auto precision = precisions.find(wish.text("--precision"));
  if (precision == precisions.end()) return fail(Code::Invalid, "--precision: f32, f16 or q8");
  return LoadSpec{.folder = wish.folder,
                  .library_folder = wish.text("--library"),
                  .precision = precision->second,
                  .threads = wish.number("--threads"),
                  .slice_max = wish.milliseconds("--slice-max")};
}

Result<Sample> sample_of(const Wish& wish, Handle words, Handle negative) {
  const std::map<std::string, SamplerKind> samplers = {
      {"ddim", SamplerKind::Ddim},
      {"euler", SamplerKind::Euler},
      {"euler-ancestral", SamplerKind::EulerAncestral},
      {"lcm", SamplerKind::Lcm}};
  Sample sample{.words = words, .negative = negative, .steps = wish.number("--steps")};
  sample.cfg = std::strtod(wish.text("--cfg").c_str(), nullptr);
  if (const std::string& name = wish.text("--sampler"); !name.empty()) {
    const auto sampler = samplers.find(name);
    if (sampler == samplers.end()) return fail(Code::Invalid, "--sampler: no such one");
    sample.sampler = sampler->second;
  }
  if (std::sscanf(wish.text("--size").c_str(), "%ux%u", &sample.size.width, &sample.size.height) !=
      2) {
    return fail(Code::Invalid, "--size: WxH");
  }
  return sample;
}

// Denoises the batch together; returns the median of a step.
Result<Duration> denoise(Engine& engine, std::vector<Handle> batch, Duration slice,
                         Duration& longest) {
  std::vector<Duration> steps;
  while (!batch.empty()) {
    const Timed timed = TRY(pass(engine, batch, slice));
    steps.push_back(timed.took);
    longest = std::max(longest, timed.longest);
    batch.clear();
    for (const Stepped& stepped : timed.stepped) {
      if (!stepped.finished) batch.push_back(stepped.handle);
    }
  }
  std::ranges::sort(steps);
  return steps[steps.size() / 2];
}

Result<> draw(const Wish& wish) {
  const auto engine = TRY(Engine::load(TRY(load_spec(wish))));
  const Duration slice = wish.milliseconds("--slice");
  std::vector<Handle> texts;
  for (const char* option : {"--prompt", "--negative"}) {
    texts.push_back(TRY(engine->prepare(EncodeText{wish.text(option)})).handle);
  }
  const Timed encoded = TRY(pass(*engine, texts, slice));

  std::vector<Handle> batch;
  Duration longest = encoded.longest;
  for (std::uint32_t i = 0; i < wish.number("--count"); ++i) {
    Sample sample = TRY(sample_of(wish, texts[0], texts[1]));
    sample.seed = wish.number("--seed") + i;
    batch.push_back(TRY(engine->prepare(sample)).handle);
  }
  if (batch.empty()) return fail(Code::Invalid, "--count: at least 1");
  const Duration step = TRY(denoise(*engine, batch, slice, longest));

  std::vector<Image> images;
  Duration decode{};
  for (const Handle sample : batch) {
    const Handle pixels = TRY(engine->prepare(DecodeLatent{sample})).handle;
    const Timed timed = TRY(pass(*engine, {pixels}, slice));
    decode = timed.took;
    longest = std::max(longest, timed.longest);
    images.push_back(TRY(engine->deliver_image(pixels)));
  }
  TRY_VOID(write_png(wish.text("--out"), images));
  const MemoryHeld memory = engine->memory();
  fmt::print(
      "text {}, step {} (batch of {}), decode {}, longest stretch {}; weights {}, compute {}\n",
      format_duration(encoded.took), format_duration(step), batch.size(), format_duration(decode),
      format_duration(longest), format_bytes(memory.weights.count),
      format_bytes(memory.compute.count));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Wish wish;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (wish.options.contains(argument) && i + 1 < argc) {
      wish.options[argument] = argv[++i];
    } else if (wish.folder.empty() && !argument.starts_with("--")) {
      wish.folder = argument;
    } else {
      fmt::print(stderr, "what is {}?\n", argument);
      return 2;
    }
  }
  const auto drawn = draw(wish);
  if (drawn) return 0;
  fmt::print(stderr, "{}\n", drawn.error().message);
  return 1;
}
