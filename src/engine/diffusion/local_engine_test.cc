#include "engine/diffusion/local_engine.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/diffusion/noise.h"
#include "engine/diffusion/test_folder.h"

namespace lares::diffusion {
namespace {

constexpr Duration kWhole{};

std::unique_ptr<Engine> starter(Precision precision = Precision::F32) {
  auto engine = Engine::load(
      {.folder = kStarterModel, .device = "", .library_folder = "", .precision = precision});
  EXPECT_TRUE(engine) << engine.error().message;
  return *std::move(engine);
}

// Runs one pass over the handles to its end.
std::vector<Stepped> pass(Engine& engine, const std::vector<Handle>& handles,
                          Duration slice = kWhole) {
  const auto started = engine.step(handles);
  EXPECT_TRUE(started) << started.error().message;
  for (int i = 0; i < 100'000; ++i) {
    const auto sliced = engine.slice(slice);
    EXPECT_TRUE(sliced) << sliced.error().message;
    if (!sliced || sliced->done) return sliced ? sliced->stepped : std::vector<Stepped>{};
  }
  ADD_FAILURE() << "the pass does not end";
  return {};
}

void finish(Engine& engine, Handle handle) {
  while (!pass(engine, {handle}).at(0).finished) {
  }
}

Handle prepared(Engine& engine, const Work& work) {
  const auto result = engine.prepare(work);
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->handle : Handle{};
}

Handle words(Engine& engine, const std::string& text) {
  const Handle handle = prepared(engine, EncodeText{text});
  finish(engine, handle);
  return handle;
}

std::vector<float> latent(Engine& engine, Handle handle) {
  return engine.deliver_latent(handle).value().values;
}

std::vector<float> decoded(Engine& engine, Handle handle) {
  const Handle pixels = prepared(engine, DecodeLatent{handle});
  finish(engine, pixels);
  return engine.deliver_values(pixels).value();
}

// The golden run's picture of an apple, from the golden noise.
Sample apple(Engine& engine, SamplerKind sampler, std::vector<float> start) {
  return {.words = words(engine, "a red apple"),
          .negative = words(engine, ""),
          .steps = 8,
          .cfg = 4,
          .sampler = sampler,
          .resume = Resume{0, std::move(start)}};
}

TEST(Engine, FollowsTheGoldenTrajectory) {
  const auto engine = starter();
  const Handle sample =
      prepared(*engine, apple(*engine, SamplerKind::Ddim, golden("ddim8", "noise")));
  const std::vector<float> expected = golden("ddim8", "latents");
  const std::size_t size = expected.size() / 8;
  double worst = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const auto stepped = pass(*engine, {sample});
    ASSERT_EQ(stepped.size(), 1U);
    EXPECT_EQ(stepped[0].steps_done, i + 1);
    EXPECT_EQ(stepped[0].finished, i == 7);
    const std::span<const float> golden_step(expected.data() + i * size, size);
    worst = std::max(worst, relative_error(latent(*engine, sample), golden_step));
  }
  const std::vector<float> pixels = golden("ddim8", "pixels");
  const std::vector<float> ours = decoded(*engine, sample);
  std::printf("ddim, 8 steps, F32: worst latent relative %.2g, picture %.1f dB\n", worst,
              psnr(ours, pixels, 2));
  EXPECT_LT(worst, 1e-4);
  EXPECT_LT(relative_error(ours, pixels), 1e-4);
}

TEST(Engine, AgreesInHalfPrecision) {
  for (const auto& [precision, bound] : {std::pair{Precision::F16, 35.0}, {Precision::Q8, 20.0}}) {
    const auto engine = starter(precision);
    const Handle sample =
        prepared(*engine, apple(*engine, SamplerKind::Ddim, golden("ddim8", "noise")));
    finish(*engine, sample);
    const double ratio = psnr(decoded(*engine, sample), golden("ddim8", "pixels"), 2);
    std::printf("ddim, 8 steps, precision %d: picture %.1f dB\n", static_cast<int>(precision),
                ratio);
    EXPECT_GT(ratio, bound);
  }
}

TEST(Engine, FollowsTheGoldenEulerRun) {
  const auto engine = starter();
  const auto config = read_folder(kStarterModel);
  const double alpha = alphas_cumprod(config->schedule)[999];
  std::vector<float> start = golden("euler8", "noise");
  for (float& value : start) value *= static_cast<float>(std::sqrt((1 - alpha) / alpha));
  const Handle sample = prepared(*engine, apple(*engine, SamplerKind::Euler, std::move(start)));
  finish(*engine, sample);
  const double error = relative_error(latent(*engine, sample), golden("euler8", "latent"));
  std::printf("euler, 8 steps, F32: latent relative %.2g\n", error);
  EXPECT_LT(error, 1e-4);
}

TEST(Engine, APictureDoesNotDependOnItsBatch) {
  const auto engine = starter();
  const Handle one = words(*engine, "a red apple"), two = words(*engine, "a sunflower");
  const Handle none = words(*engine, "");
  const auto make = [&](Handle of, std::uint64_t seed, std::uint32_t steps) {
    return prepared(*engine, Sample{.words = of,
                                    .negative = none,
                                    .seed = seed,
                                    .steps = steps,
                                    .sampler = SamplerKind::EulerAncestral});
  };
  const Handle alone = make(one, 5, 4);
  finish(*engine, alone);
  // The same picture, joined at its second step by another one of other length, at its first.
  const Handle first = make(one, 5, 4), second = make(two, 6, 3), second_alone = make(two, 6, 3);
  pass(*engine, {first});
  for (int i = 0; i < 3; ++i) pass(*engine, {second, first});
  finish(*engine, second_alone);
  // Our own kernels add up each value in one order, whatever is beside it: not even rounding
  // differs.
  EXPECT_EQ(latent(*engine, first), latent(*engine, alone));
  EXPECT_EQ(latent(*engine, second), latent(*engine, second_alone));
  EXPECT_LT(psnr(latent(*engine, first), latent(*engine, second), 8), 30);
  const Handle other_seed = make(one, 7, 4);
  finish(*engine, other_seed);
  EXPECT_LT(psnr(latent(*engine, other_seed), latent(*engine, alone), 8), 60);
}

TEST(Engine, SlicesChangeNothing) {
  const auto engine = starter();
  const Handle text = words(*engine, "a sunflower"), none = words(*engine, "");
  const Work work = Sample{.words = text, .negative = none, .seed = 3, .steps = 2};
  const Handle whole = prepared(*engine, work), sliced = prepared(*engine, work);
  finish(*engine, whole);
  ASSERT_TRUE(engine->step({{sliced}}));
  int slices = 0;
  for (bool done = false; !done; ++slices) {
    const auto result = engine->slice(std::chrono::nanoseconds(1));
    ASSERT_TRUE(result);
    EXPECT_LE(result->longest, result->took);
    done = result->done;
    // Other work may be prepared, and other latents made, while a pass rests.
    if (slices == 2) engine->release(prepared(*engine, EncodeText{"rest"}));
  }
  EXPECT_GT(slices, 5);
  pass(*engine, {sliced}, std::chrono::microseconds(500));
  EXPECT_EQ(latent(*engine, whole), latent(*engine, sliced));
}

TEST(Engine, ARestingPassKeepsItsGraph) {
  LoadSpec spec{.folder = kStarterModel, .precision = Precision::F32};
  spec.compute_max = Bytes{9 << 20};  // For some of the graphs below at a time.
  const auto engine = Engine::load(spec).value();
  const Handle text = words(*engine, "a sunflower");
  const Work work = Sample{.words = text, .steps = 1, .cfg = 1};
  const Handle whole = prepared(*engine, work), rested = prepared(*engine, work);
  finish(*engine, whole);
  ASSERT_TRUE(engine->step({{rested}}));
  EXPECT_FALSE(engine->slice(std::chrono::nanoseconds(1))->done);
  for (const std::uint32_t side : {80U, 96U, 112U, 64U, 80U}) {
    engine->prepare(Sample{.words = text, .cfg = 1, .size = {side, side}}).value();
  }
  EXPECT_TRUE(engine->slice(kWhole)->done);
  EXPECT_EQ(latent(*engine, whole), latent(*engine, rested));
}

TEST(Engine, EachStepHasNoiseOfItsOwn) {
  const auto engine = starter();
  const Handle text = words(*engine, "a red apple");
  const Handle base = *engine->adopt({{64, 64}, golden("vae_decode", "latent_apple")});
  const auto config = read_folder(kStarterModel);
  const Trajectory trajectory =
      *make_trajectory(config->schedule, SamplerKind::EulerAncestral, 10, true, 0.5);
  // From the same latent two seeds differ by the noise of that step alone: step 5 + 2 of all.
  std::vector<std::vector<float>> latents;
  for (const std::uint64_t seed : {5U, 6U}) {
    const Handle sample =
        prepared(*engine, Sample{.words = text,
                                 .seed = seed,
                                 .steps = 10,
                                 .cfg = 1,
                                 .sampler = SamplerKind::EulerAncestral,
                                 .from = base,
                                 .strength = 0.5,
                                 .resume = Resume{2, golden("vae_decode", "latent_random")}});
    pass(*engine, {sample});
    latents.push_back(latent(*engine, sample));
  }
  std::vector<float> five(latents[0].size()), six(five.size());
  fill_noise(5, step_draw(7), five);
  fill_noise(6, step_draw(7), six);
  for (std::size_t i = 0; i < five.size(); ++i) {
    EXPECT_NEAR(latents[0][i] - latents[1][i],
                trajectory.steps[2].next_noise * (double{five[i]} - six[i]), 1e-5);
  }
}

TEST(Engine, CancelTakesEffectAtTheNextSlice) {
  const auto engine = starter();
  const Handle text = words(*engine, "a sunflower");
  const Work work = Sample{.words = text, .steps = 2, .cfg = 1};
  const Handle a = prepared(*engine, work), b = prepared(*engine, work);
  const Bytes held = engine->memory().held;
  ASSERT_TRUE(engine->step({{a, b}}));
  EXPECT_FALSE(engine->slice(std::chrono::nanoseconds(1))->done);
  EXPECT_EQ(engine->step({{a}}).error().code, Code::Conflict);
  engine->release(a);
  const auto stepped = engine->slice(kWhole);
  ASSERT_EQ(stepped->stepped.size(), 1U);
  EXPECT_EQ(stepped->stepped[0].handle, b);
  ASSERT_TRUE(engine->step({{b}}));
  EXPECT_FALSE(engine->slice(std::chrono::nanoseconds(1))->done);
  engine->release(b);
  const auto over = engine->slice(std::chrono::nanoseconds(1));
  EXPECT_TRUE(over->done);
  EXPECT_TRUE(over->stepped.empty());
  EXPECT_EQ(engine->slice(kWhole).error().code, Code::Conflict);
  EXPECT_LT(engine->memory().held, held);
  EXPECT_EQ(engine->deliver_latent(b).error().code, Code::NotFound);
}

TEST(Engine, GoesOnFromACheckpoint) {
  const auto engine = starter();
  const Handle text = words(*engine, "a sunflower");
  Sample work{
      .words = text, .seed = 9, .steps = 5, .cfg = 1, .sampler = SamplerKind::EulerAncestral};
  const Handle whole = prepared(*engine, work), begun = prepared(*engine, work);
  finish(*engine, whole);
  pass(*engine, {begun});
  pass(*engine, {begun});
  work.resume = Resume{2, latent(*engine, begun)};
  const auto again = engine->prepare(work);
  EXPECT_EQ(again->steps, 3U);
  finish(*engine, again->handle);
  EXPECT_EQ(latent(*engine, whole), latent(*engine, again->handle));
}

TEST(Engine, StartsFromALatentByStrength) {
  const auto engine = starter();
  const Handle text = words(*engine, "a red apple"), none = words(*engine, "");
  const Handle base =
      prepared(*engine, Sample{.words = text, .negative = none, .seed = 1, .steps = 8});
  finish(*engine, base);
  const auto distance = [&](double strength) {
    const auto result = engine->prepare(Sample{.words = text,
                                               .negative = none,
                                               .seed = 2,
                                               .steps = 10,
                                               .from = base,
                                               .strength = strength});
    EXPECT_EQ(result->steps, static_cast<std::uint32_t>(10 * strength + 1e-9));
    finish(*engine, result->handle);
    return relative_error(latent(*engine, result->handle), latent(*engine, base));
  };
  const double little = distance(0.2), much = distance(1);
  EXPECT_GT(little, 0.01);
  EXPECT_LT(little, 0.5 * much);
}

TEST(Engine, EncodesWhatItDecodes) {
  const auto engine = starter();
  const Handle clean = *engine->adopt({{64, 64}, golden("vae_decode", "latent_apple")});
  const Handle pixels = prepared(*engine, DecodeLatent{clean});
  finish(*engine, pixels);
  const Image image = *engine->deliver_image(pixels);
  const Handle encoded = prepared(*engine, EncodePixels{image});
  finish(*engine, encoded);
  std::vector<float> mean = golden("vae_encode", "mean");
  for (float& value : mean) value *= 0.18215F;
  EXPECT_LT(relative_error(latent(*engine, encoded), mean), 0.02);  // Bytes are coarse.
  EXPECT_EQ(engine->deliver_latent(encoded)->size, (Size{64, 64}));
  const Image preview = *engine->preview(encoded);
  EXPECT_EQ(preview.size, (Size{16, 16}));
  EXPECT_EQ(preview.rgb.size(), 3U * 16 * 16);
  // The middle of an apple is red; a corner is the background.
  const std::size_t middle = 3 * (9 * 16 + 8);
  EXPECT_GT(preview.rgb[middle], preview.rgb[middle + 1] + 40);
}

TEST(Engine, MakesLatentsOfLatents) {
  const auto engine = starter();
  const Handle a = *engine->adopt({{64, 64}, golden("vae_decode", "latent_apple")});
  const Handle b = *engine->adopt({{64, 64}, golden("vae_decode", "latent_random")});
  EXPECT_EQ(latent(*engine, *engine->blend(a, b, 0)), latent(*engine, a));
  EXPECT_LT(relative_error(latent(*engine, *engine->walk(a, b, 1)), latent(*engine, b)), 1e-5);
  const Handle large = *engine->resize(a, {96, 64});
  EXPECT_EQ(latent(*engine, large).size(), 4U * 24 * 16);
  EXPECT_EQ(decoded(*engine, large).size(), 3U * 96 * 64);
  EXPECT_EQ(engine->blend(a, large, 0.5).error().code, Code::Invalid);
  EXPECT_EQ(engine->walk(a, b, 1.5).error().code, Code::Invalid);
  EXPECT_EQ(engine->resize(a, {70, 64}).error().code, Code::Invalid);
}

TEST(Engine, RefusesWhatMakesNoSense) {
  const auto engine = starter();
  const Handle text = words(*engine, "a red apple");
  const Handle raw = prepared(*engine, EncodeText{"x"});
  const auto code = [&](const Work& work) { return engine->prepare(work).error().code; };
  const Sample plain{.words = text, .cfg = 1};
  const auto with = [&plain](auto change) {
    Sample sample = plain;
    change(sample);
    return sample;
  };
  EXPECT_TRUE(engine->prepare(plain));
  EXPECT_EQ(code(with([](Sample& s) { s.words = Handle{999}; })), Code::NotFound);
  EXPECT_EQ(code(with([&](Sample& s) { s.words = raw; })), Code::Conflict);
  EXPECT_EQ(code(with([](Sample& s) { s.cfg = 2; })), Code::Invalid);
  EXPECT_EQ(code(with([](Sample& s) { s.cfg = NAN; })), Code::Invalid);
  EXPECT_EQ(code(with([](Sample& s) { s.cfg = 1e9; })), Code::Invalid);
  EXPECT_EQ(code(with([](Sample& s) { s.steps = 0; })), Code::Invalid);
  EXPECT_EQ(code(with([](Sample& s) { s.steps = 4'000'000'000; })), Code::TooLarge);
  EXPECT_EQ(code(with([](Sample& s) { s.size = {4096, 64}; })), Code::TooLarge);
  EXPECT_EQ(code(with([](Sample& s) { s.size = {65, 64}; })), Code::Invalid);
  EXPECT_EQ(code(with([](Sample& s) { s.size = {0, 64}; })), Code::Invalid);
  EXPECT_EQ(code(with([&](Sample& s) { s.from = text; })), Code::Conflict);
  EXPECT_EQ(code(with([](Sample& s) { s.resume = Resume{0, {1, 2}}; })), Code::Invalid);
  EXPECT_EQ(code(with([](Sample& s) {
              s.resume = Resume{20, std::vector<float>(1024)};
            })),
            Code::Invalid);
  EXPECT_EQ(code(DecodeLatent{text}), Code::Conflict);
  EXPECT_EQ(code(EncodePixels{{{64, 64}, {1, 2, 3}}}), Code::Invalid);
  EXPECT_EQ(engine->step({}).error().code, Code::Invalid);
  EXPECT_EQ(engine->step({{text}}).error().code, Code::Invalid);
  EXPECT_EQ(engine->step({{raw, raw}}).error().code, Code::Invalid);
  EXPECT_EQ(engine->step({{raw, prepared(*engine, plain)}}).error().code, Code::Conflict);
  EXPECT_EQ(engine->adopt({{64, 64}, std::vector<float>(1024, NAN)}).error().code, Code::Corrupt);
  engine->release(Handle{12345});
}

TEST(Engine, SizesBuffersBeforeTheFirstStep) {
  LoadSpec spec{.folder = kStarterModel,
                .device = "",
                .library_folder = "",
                .precision = Precision::F32,
                .compute_max = Bytes{6 << 20}};
  const auto engine = Engine::load(spec).value();
  const Handle text = words(*engine, "a red apple");
  const auto large = engine->prepare(Sample{.words = text, .cfg = 1, .size = {512, 512}});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::TooLarge);
  EXPECT_NE(large.error().message.find("compute buffer"), std::string::npos);
  const auto small = engine->prepare(Sample{.words = text, .steps = 1, .cfg = 1});
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_GT(small->compute.count, 0);
  finish(*engine, small->handle);
  EXPECT_LE(engine->memory().compute, spec.compute_max);

  spec.held_max = Bytes{20'000};
  const auto tight = Engine::load(spec).value();
  EXPECT_TRUE(tight->prepare(EncodeText{"a"}));
  EXPECT_EQ(tight->prepare(EncodeText{"b"}).error().code, Code::TooLarge);
}

TEST(Engine, RefusesWeightsThatDoNotFitTheConfig) {
  const std::string folder = linked_starter("misfit");
  const std::string config = folder + "/unet/config.json";
  std::string text = read_file(config);
  const auto load_with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    std::filesystem::remove(config);
    write_file(config, changed);
    const auto engine = Engine::load({.folder = folder, .device = "", .library_folder = ""});
    return engine ? std::string() : engine.error().message;
  };
  const std::string layers = R"("layers_per_block": 1)";
  EXPECT_NE(load_with(layers, R"("layers_per_block": 2)").find("missing"), std::string::npos);
  EXPECT_NE(load_with("    160", "    176").find("has shape"), std::string::npos);
  const std::string attention = "\"up_block_types\": [\n    \"CrossAttnUpBlock2D\"";
  EXPECT_NE(load_with(attention, "\"up_block_types\": [\n    \"UpBlock2D\"")
                .find("nothing in the config accounts for it"),
            std::string::npos);
  const std::string weights = folder + "/unet/diffusion_pytorch_model.safetensors";
  std::string bytes = read_file(weights);
  bytes[bytes.size() - 1] = 0x7e;
  bytes[bytes.size() - 2] = 0x01;
  std::filesystem::remove(weights);
  write_file(weights, bytes);
  EXPECT_NE(load_with(layers, layers).find("NaN"), std::string::npos);
}

}  // namespace
}  // namespace lares::diffusion
