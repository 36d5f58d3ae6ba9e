// U-Net and autoencoder against the golden values, whole and cut into bands.
#include <chrono>

#include <gtest/gtest.h>

#include "engine/diffusion/test_folder.h"
#include "engine/diffusion/unet.h"
#include "engine/diffusion/vae.h"

namespace lares::diffusion {
namespace {

constexpr Bytes kRoom{std::int64_t{1} << 30U};

Device& device() {
  static Device opened = *Device::open("", "", 1);
  return opened;
}

void set(ggml_tensor* tensor, const std::vector<float>& values) {
  ASSERT_EQ(ggml_nbytes(tensor), values.size() * sizeof(float));
  ggml_backend_tensor_set(tensor, values.data(), 0, values.size() * sizeof(float));
}

std::vector<float> run(Graph& graph) {
  graph.start();
  const auto ran = graph.run(device(), Duration::zero());
  EXPECT_TRUE(ran && ran->done);
  std::vector<float> out(static_cast<std::size_t>(ggml_nelements(graph.output())));
  ggml_backend_tensor_get(graph.output(), out.data(), 0, out.size() * sizeof(float));
  return out;
}

struct Case {
  Precision precision;
  double ops_max;  // 0 = whole.
  double bound;
  bool own_kernels = true;  // Not ggml's nodes alone.
};

void use(const Case& one) {
  device().use_kernels(one.own_kernels ? best_kernels() : nullptr);
}

std::string name_of(const Case& one) {
  constexpr const char* kNames[] = {"F32", "F16", "Q8"};
  return std::string(kNames[static_cast<int>(one.precision)]) +
         (one.ops_max > 0 ? ", in bands" : "") + (one.own_kernels ? "" : ", ggml's nodes");
}

std::vector<float> unet_output(const Case& one) {
  use(one);
  const auto config = read_folder(kStarterModel);
  const auto unet = Unet::load(config->unet, config->unet_weights, one.precision, device());
  EXPECT_TRUE(unet) << unet.error().message;
  Unet::Inputs inputs;
  auto graph = Graph::create(device(), one.ops_max, kRoom, "unet", [&](const Builder& b) {
    return unet->build(b, 16, 16, 32, 2, inputs);
  });
  EXPECT_TRUE(graph) << graph.error().message;
  if (one.ops_max > 0) {
    EXPECT_LT((*graph)->ops_of_largest_node(), 2 * one.ops_max);
  }
  set(inputs.latent, golden("unet", "sample"));
  std::vector<float> time = unet->time_embedding(801);
  const std::vector<float> second = unet->time_embedding(37);
  time.insert(time.end(), second.begin(), second.end());
  set(inputs.time, time);
  set(inputs.words, golden("unet", "encoder_hidden_states"));
  return run(**graph);
}

TEST(Unet, AgreesWithTheGoldenValues) {
  const std::vector<float> expected = golden("unet", "out");
  for (const Case& one :
       {Case{Precision::F32, 0, 1e-5}, Case{Precision::F32, 1e7, 1e-5},
        Case{Precision::F16, 0, 1e-5}, Case{Precision::Q8, 0, 5e-2},
        Case{Precision::F32, 0, 1e-5, false}, Case{Precision::F32, 1e7, 1e-5, false},
        Case{Precision::F16, 0, 5e-3, false}}) {
    const std::vector<float> out = unet_output(one);
    const double error = relative_error(out, expected);
    std::printf("unet, %s: relative %.2g, largest %.2g\n", name_of(one).c_str(), error,
                largest_difference(out, expected));
    EXPECT_LT(error, one.bound);
  }
}

std::vector<float> vae_output(const Case& one, bool encode, const std::vector<float>& input) {
  use(one);
  const auto config = read_folder(kStarterModel);
  const auto vae = Vae::load(config->vae, config->vae_weights, one.precision, device());
  EXPECT_TRUE(vae) << vae.error().message;
  ggml_tensor* in = nullptr;
  auto graph = Graph::create(device(), one.ops_max, kRoom, "vae", [&](const Builder& b) {
    return encode ? vae->build_encoder(b, 64, 64, in) : vae->build_decoder(b, 16, 16, in);
  });
  EXPECT_TRUE(graph) << graph.error().message;
  if (one.ops_max > 0) {
    EXPECT_LT((*graph)->ops_of_largest_node(), 2 * one.ops_max);
  }
  set(in, input);
  return run(**graph);
}

TEST(Vae, DecodesAsTheGoldenValues) {
  for (const char* which : {"random", "apple"}) {
    std::vector<float> latent = golden("vae_decode", std::string("latent_") + which);
    const std::vector<float> expected = golden("vae_decode", std::string("pixels_") + which);
    for (float& value : latent) value /= 0.18215F;
    for (const Case& one :
         {Case{Precision::F32, 0, 1e-5}, Case{Precision::F32, 1e7, 1e-5},
          Case{Precision::F16, 0, 1e-5}, Case{Precision::F32, 0, 1e-5, false},
          Case{Precision::F32, 1e7, 1e-5, false}, Case{Precision::F16, 0, 5e-3, false}}) {
      const std::vector<float> out = vae_output(one, false, latent);
      const double error = relative_error(out, expected);
      std::printf("vae decode %s, %s: relative %.2g, largest %.2g\n", which, name_of(one).c_str(),
                  error, largest_difference(out, expected));
      EXPECT_LT(error, one.bound);
    }
  }
}

TEST(Vae, EncodesAsTheGoldenValues) {
  std::vector<float> expected = golden("vae_encode", "mean");
  const std::vector<float> logvar = golden("vae_encode", "logvar");
  expected.insert(expected.end(), logvar.begin(), logvar.end());
  for (const Case& one :
       {Case{Precision::F32, 0, 1e-5}, Case{Precision::F32, 1e7, 1e-5},
        Case{Precision::F16, 0, 1e-5}, Case{Precision::F32, 0, 1e-5, false},
        Case{Precision::F32, 1e7, 1e-5, false}, Case{Precision::F16, 0, 5e-3, false}}) {
    const std::vector<float> out = vae_output(one, true, golden("vae_encode", "pixels"));
    const double error = relative_error(out, expected);
    std::printf("vae encode, %s: relative %.2g, largest %.2g\n", name_of(one).c_str(), error,
                largest_difference(out, expected));
    EXPECT_LT(error, one.bound);
  }
}

}  // namespace
}  // namespace lares::diffusion
