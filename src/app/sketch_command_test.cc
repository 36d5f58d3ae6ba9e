#include "app/sketch_command.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "app/image_folder.h"
#include "core/json.h"
#include "sketch/test_catalogue.h"

namespace lares::app {
namespace {

namespace fs = std::filesystem;

int run(std::vector<std::string> words) {
  return run_sketch_command(words, "/no/such/program");
}

class SketchFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "lares-sketch-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // A folder as diffusers writes it, in few words.
  std::string model(const std::string& name) {
    write(name + "/model_index.json", R"({"_class_name": "StableDiffusionPipeline"})");
    write(name + "/vae/config.json",
          R"({"_class_name": "AutoencoderKL", "block_out_channels": [1, 2, 3],
              "latent_channels": 4, "scaling_factor": 0.18215})");
    write(name + "/unet/config.json",
          R"({"block_out_channels": [1, 2, 3], "sample_size": 16, "cross_attention_dim": 128})");
    write(name + "/text_encoder/config.json",
          R"({"hidden_size": 128, "max_position_embeddings": 32})");
    write(name + "/text_encoder/model.safetensors", "words");
    write(name + "/unet/diffusion_pytorch_model.safetensors", "noise");
    write(name + "/scheduler/scheduler_config.json",
          R"({"_class_name": "EulerDiscreteScheduler"})");
    return (folder_ / name).string();
  }

  fs::path folder_;
};

TEST_F(SketchFiles, ExitStatusSaysWhatHappened) {
  const std::string good = write("good.sketch", "in a : Text\nout a txt\n");
  const std::string bad = write("bad.sketch", "out a txt\n");
  const std::string models = folder_.string();
  EXPECT_EQ(run({"check", good, "--models", models}), 0);
  EXPECT_EQ(run({"check", "--json", good, "--models", models}), 0);
  EXPECT_EQ(run({"check", bad, "--models", models}), 1);
  EXPECT_EQ(run({"check", bad, "--json", "--models", models}), 1);
  EXPECT_EQ(run({"fmt", bad}), 0) << "what a name means is no matter of form";
  EXPECT_EQ(run({"fmt", write("worse.sketch", "out a")}), 1);
  EXPECT_EQ(run({"check", "/no/such/file"}), 2);
  EXPECT_EQ(run({"check", folder_.string()}), 2);
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"chekc", good}), 2);
  EXPECT_EQ(run({"check"}), 2);
  EXPECT_EQ(run({"check", good, "--memory", "lots"}), 2);
  EXPECT_EQ(run({"check", good, "--jsn"}), 2);
  EXPECT_EQ(run({"check", good, "--write"}), 2);
  EXPECT_EQ(run({"--help"}), 0);
}

TEST_F(SketchFiles, FormattingWritesTheFileOnlyIfItIsSound) {
  const std::string good = write("good.sketch", "out   (a) txt");
  EXPECT_EQ(run({"fmt", "--write", good}), 0);
  EXPECT_EQ(read(good), "out a txt\n");
  const std::string bad = write("bad.sketch", "out   (a");
  EXPECT_EQ(run({"fmt", "--write", bad}), 1);
  EXPECT_EQ(read(bad), "out   (a");
}

TEST(Sketch, CheckInJsonHasWhatProgramsRelyOn) {
  const Answer answer = check_sketch("use sd15\nx = \"a\" | encode | sample 20 seed 1\nout x png\n",
                                     sketch::test_catalogue(), true);
  ASSERT_TRUE(answer.sound);
  const auto plan = json::parse(answer.text);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto* nodes = plan->find("nodes")->as<json::Array>();
  ASSERT_NE(nodes, nullptr);
  ASSERT_EQ(nodes->size(), 5U);
  const json::Value& sample = (*nodes)[2];
  EXPECT_EQ(*sample.find("op"), json::Value("sample"));
  EXPECT_EQ(*sample.find("type"), json::Value("Latent sd 64x64 f16"));
  EXPECT_EQ(*sample.find("batch_key"), json::Value("sample sd15 f16 64x64 steps 20 ddim cfg"));
  EXPECT_EQ(*sample.find("cached"), json::Value(false));
  EXPECT_EQ(plan->find("price")->find("seconds")->number(), 8.52);
}

TEST(Sketch, ErrorsInJsonHaveTheirPlace) {
  for (const std::string source :
       {"out x png", R"({"sketch":1,"lines":[{"out":[{"name":"x"}],"medium":"png"}]})"}) {
    const Answer answer = check_sketch(source, {}, true);
    EXPECT_FALSE(answer.sound);
    EXPECT_EQ(answer.text,
              "{\"errors\":[{\"code\":\"N1\",\"line\":1,\"column\":5,\"message\":\"nothing is "
              "called `x`\"}]}\n");
  }
}

TEST(Sketch, BothFormsAreFormatted) {
  const Answer text = format_sketch("out   x  png", false);
  EXPECT_EQ(text.text, "out x png\n");
  const Answer as_json = format_sketch("out   x  png", true);
  EXPECT_EQ(as_json.text,
            "{\"sketch\":1,\"lines\":[{\"out\":[{\"name\":\"x\"}],\"medium\":\"png\"}]}\n");
  EXPECT_EQ(format_sketch(as_json.text, false).text, text.text);
}

TEST_F(SketchFiles, ImageModelsAreDescribedFromTheirConfigurations) {
  model("pictures/tiny");
  const auto found = find_image_models(folder_.string());
  ASSERT_EQ(found.size(), 1U);
  const auto tiny = read_image_model(found[0]);
  ASSERT_TRUE(tiny) << tiny.error().message;
  EXPECT_EQ(tiny->name, "tiny");
  EXPECT_EQ(tiny->space.factor, 4U);
  EXPECT_EQ(tiny->space.facts(), "KL-f4, x0.18215");
  EXPECT_EQ(tiny->multiple, 16U);
  EXPECT_EQ(tiny->usual, (sketch::Size{64, 64}));
  EXPECT_EQ(tiny->takes_width, 128U);
  EXPECT_EQ(tiny->cond_tokens, 32U);
  EXPECT_EQ(tiny->sampler, "euler");
  EXPECT_EQ(tiny->steps_draft, 10U);
  EXPECT_EQ(tiny->steps_fine, 40U);
  EXPECT_EQ(tiny->weights, Bytes{10});
  // The same encoder under another name; another one.
  const auto twin = read_image_model(model("twin"));
  EXPECT_EQ(twin->encoder, tiny->encoder);
  EXPECT_EQ(twin->digest, tiny->digest);
  model("other");
  write("other/text_encoder/model.safetensors", "other");
  EXPECT_NE(read_image_model((folder_ / "other").string())->encoder, tiny->encoder);
}

TEST_F(SketchFiles, FoldersThatCannotBeReadAreLeftOut) {
  model("good");
  write(fs::path(model("cut")).filename().string() + "/unet/config.json", "{");
  model("odd");
  write("odd/vae/config.json", R"({"_class_name": "VQModel"})");
  model("mad");
  write("mad/unet/config.json", R"({"sample_size": "wide"})");
  std::string left_out;
  const sketch::Catalogue catalogue = folder_catalogue(folder_.string(), "", left_out);
  ASSERT_EQ(catalogue.models.size(), 1U);
  EXPECT_EQ(catalogue.models[0].name, "good");
  EXPECT_NE(left_out.find("VQModel"), std::string::npos) << left_out;
  EXPECT_NE(left_out.find("cut/unet/config.json"), std::string::npos) << left_out;
  EXPECT_NE(left_out.find("mad/unet/config.json"), std::string::npos) << left_out;
}

}  // namespace
}  // namespace lares::app
