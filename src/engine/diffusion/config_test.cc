#include "engine/diffusion/config.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "engine/diffusion/test_folder.h"

namespace lares::diffusion {
namespace {

// A copy of the starter model in which `from` is replaced by `to` in `file`.
Result<FolderConfig> changed(const std::string& file, const std::string& from,
                             const std::string& to) {
  static int count = 0;
  const std::string folder = linked_starter("model" + std::to_string(++count));
  std::string text = read_file(folder + "/" + file);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::filesystem::remove(folder + "/" + file);  // The link; not the model's own file.
  write_file(folder + "/" + file, text);
  return read_folder(folder);
}

void expect_refused(const std::string& file, const std::string& from, const std::string& to,
                    Code code, const std::string& part) {
  const auto result = changed(file, from, to);
  ASSERT_FALSE(result) << part;
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  EXPECT_NE(result.error().message.find(file), std::string::npos) << result.error().message;
}

TEST(Config, ReadsTheStarterModel) {
  const auto c = read_folder(kStarterModel);
  ASSERT_TRUE(c) << c.error().message;
  EXPECT_EQ(c->text.width, 128U);
  EXPECT_EQ(c->text.positions, 32U);
  EXPECT_EQ(c->unet.channels, (std::vector<std::uint32_t>{48, 96, 160}));
  EXPECT_EQ(c->unet.heads, (std::vector<std::uint32_t>{4, 4, 4}));
  EXPECT_EQ(c->unet.down_attention, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(c->unet.up_attention, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(c->vae.factor(), 4U);
  EXPECT_EQ(c->schedule.spacing, Spacing::Trailing);
  EXPECT_EQ(c->schedule.prediction, Prediction::V);
  EXPECT_FALSE(c->schedule.set_alpha_to_one);
  ASSERT_TRUE(c->latent_rgb);
  EXPECT_FLOAT_EQ(c->latent_rgb->weight[2][0], 0.234289F);
}

TEST(Config, RefusesByNameWhatTheEngineLacks) {
  const auto lacks = Code::Unsupported;
  expect_refused("unet/config.json", R"("CrossAttnDownBlock2D")", R"("AttnDownBlock2D")", lacks,
                 "`down_block_types` has \"AttnDownBlock2D\"");
  expect_refused("unet/config.json", R"("act_fn": "silu")", R"("act_fn": "gelu")", lacks,
                 "`act_fn`");
  expect_refused("unet/config.json", R"("freq_shift": 0,)",
                 R"("freq_shift": 0, "class_embed_type": "timestep",)", lacks,
                 "`class_embed_type`");
  expect_refused("unet/config.json", R"("freq_shift": 0,)", R"("freq_shift": 0, "novelty": 3,)",
                 lacks, "`novelty` is 3");
  expect_refused("scheduler/scheduler_config.json", "DDIMScheduler", "HeunDiscreteScheduler", lacks,
                 "HeunDiscreteScheduler");
  expect_refused("scheduler/scheduler_config.json", R"("scaled_linear")", R"("squaredcos_cap_v2")",
                 lacks, "squaredcos_cap_v2");
  expect_refused("text_encoder/config.json", "quick_gelu", "relu", lacks, "`hidden_act`");
  expect_refused("vae/config.json", "UpDecoderBlock2D", "AttnUpDecoderBlock2D", lacks,
                 "AttnUpDecoderBlock2D");
  expect_refused("model_index.json", "CLIPTextModel", "T5EncoderModel", lacks, "`text_encoder`");
}

TEST(Config, RefusesNonsense) {
  expect_refused("unet/config.json", R"("norm_num_groups": 16)", R"("norm_num_groups": 7)",
                 Code::Invalid, "multiples of `norm_num_groups`");
  expect_refused("unet/config.json", "160", "1e9", Code::Invalid, "`block_out_channels`");
  expect_refused("unet/config.json", R"("attention_head_dim": 4)", R"("attention_head_dim": 7)",
                 Code::Invalid, "`attention_head_dim`");
  expect_refused("unet/config.json", R"("attention_head_dim": 4)",
                 R"("attention_head_dim": [4, 4])", Code::Invalid, "3 entries");
  expect_refused("text_encoder/config.json", R"("num_hidden_layers": 3)",
                 R"("num_hidden_layers": "3")", Code::Invalid, "`num_hidden_layers`");
  expect_refused("vae/config.json", "{", "[", Code::Invalid, "JSON");
  expect_refused("unet/config.json", R"("cross_attention_dim": 128)",
                 R"("cross_attention_dim": 64)", Code::Invalid, "width 64");
}

TEST(Config, AcceptsOtherSpellings) {
  const auto heads = changed("unet/config.json", R"("attention_head_dim": 4)",
                             R"("attention_head_dim": [2, 4, 8])");
  ASSERT_TRUE(heads) << heads.error().message;
  EXPECT_EQ(heads->unet.heads, (std::vector<std::uint32_t>{2, 4, 8}));
  const auto later = changed("unet/config.json", R"("freq_shift": 0,)",
                             R"("freq_shift": 0, "novelty": null, "class_embed_type": null,)");
  EXPECT_TRUE(later) << later.error().message;
}

TEST(Config, SaysWhatIsMissing) {
  EXPECT_EQ(read_folder("/nowhere").error().code, Code::NotFound);
}

}  // namespace
}  // namespace lares::diffusion
