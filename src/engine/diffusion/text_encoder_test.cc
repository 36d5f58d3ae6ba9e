#include "engine/diffusion/text_encoder.h"

#include <gtest/gtest.h>

#include "engine/diffusion/test_folder.h"

namespace lares::diffusion {
namespace {

TEST(TextEncoder, AgreesWithTheGoldenValues) {
  const auto config = read_folder(kStarterModel);
  auto device = Device::open("", "", 1);
  ASSERT_TRUE(device) << device.error().message;
  const auto file = Safetensors::open(kStarter + "golden/text_encoder.safetensors");
  const auto wide = file->read_integers(*file->find("input_ids"));
  const std::vector<std::int32_t> ids(wide->begin(), wide->end());
  const std::vector<float> expected = golden("text_encoder", "last_hidden_state");

  for (const auto& [precision, bound] :
       {std::pair{Precision::F32, 1e-5}, std::pair{Precision::F16, 2e-3},
        std::pair{Precision::Q8, 3e-2}}) {
    const auto encoder = TextEncoder::load(config->text, config->text_weights, precision, *device);
    ASSERT_TRUE(encoder) << encoder.error().message;
    TextEncoder::Inputs inputs;
    auto graph = Graph::create(*device, 0, Bytes{1 << 30}, "text",
                               [&](const Builder& b) { return encoder->build(b, 32, 6, inputs); });
    ASSERT_TRUE(graph) << graph.error().message;
    TextEncoder::set_constants(inputs);
    ggml_backend_tensor_set(inputs.ids, ids.data(), 0, ids.size() * 4);
    (*graph)->start();
    ASSERT_TRUE((*graph)->run(*device, Duration::zero())->done);
    std::vector<float> out(expected.size());
    ggml_backend_tensor_get((*graph)->output(), out.data(), 0, out.size() * 4);
    const double error = relative_error(out, expected);
    std::printf("text encoder, precision %d: relative %.2g, largest %.2g\n",
                static_cast<int>(precision), error, largest_difference(out, expected));
    EXPECT_LT(error, bound);
  }
}

}  // namespace
}  // namespace lares::diffusion
