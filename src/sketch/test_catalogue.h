// Models as tests know them: those that the examples name. Used by tests alone.
#pragma once

#include "sketch/catalogue.h"

namespace lares::sketch {

inline Model picture_model(std::string name, Space space, std::uint32_t multiple) {
  Model model{.name = std::move(name), .weights = Bytes{2000000000}, .dtypes = {"f16", "f32"}};
  model.digest = digest_of(model.name);
  model.space = std::move(space);
  model.multiple = multiple;
  model.encoder = "clip-l";
  model.step_bytes_per_cell = 100000;
  model.decode_bytes_per_pixel = 4000;
  return model;
}

inline Catalogue test_catalogue() {
  const Space sd{.name = "sd", .family = "KL-f8", .scale = {18215, 5}};
  const Space sdxl{.name = "sdxl", .family = "KL-f8", .scale = {13025, 5}};
  Catalogue all;
  for (const char* name : {"sd15", "dreamshaper", "sd-turbo"}) {
    all.models.push_back(picture_model(name, sd, 64));
  }
  all.models[1].dtypes.emplace_back("q8_0");
  all.models[2].encoder = "clip-h";
  all.models[2].cond_width = all.models[2].takes_width = 1024;
  all.models[2].cfg = Decimal::whole(1);
  all.models[2].steps = 1;
  all.models.push_back(picture_model("sdxl", sdxl, 64));
  all.models[3].encoder = "clip-l+g";
  all.models[3].cond_width = all.models[3].takes_width = 2048;
  all.models[3].usual = {1024, 1024};
  all.models.push_back(picture_model(
      "starter-image", {.name = "", .family = "KL-f4", .factor = 4, .scale = {18215, 5}}, 16));
  all.models[4].encoder = "starter";
  all.models[4].cond_tokens = 32;
  all.models[4].cond_width = all.models[4].takes_width = 128;
  all.models[4].usual = {64, 64};
  all.models[4].weights = Bytes{10000000};
  all.models.push_back(picture_model("haus-sd", sd, 64));
  all.models[5].encoder = "clip-de";
  all.models.push_back(
      {.name = "starter-chat", .kind = ModelKind::Chat, .digest = "c0", .dtypes = {"q8_0"}});
  all.models.push_back(
      {.name = "starter-embed", .kind = ModelKind::Embed, .digest = "e0", .dtypes = {"f16"}});
  all.models.back().embedding_width = 384;
  using std::chrono::milliseconds;
  for (const Model& model : all.models) {
    if (model.kind != ModelKind::Image) continue;
    // A picture from another space into sdxl: (500 + 400) / 200 steps.
    all.costs.push_back({model.name, "step", {512, 512}, milliseconds(200)});
    all.costs.push_back({model.name, "decode", {512, 512}, milliseconds(500)});
    all.costs.push_back({model.name, "latent", {512, 512}, milliseconds(400)});
    all.costs.push_back({model.name, "encode", {}, milliseconds(20)});
  }
  all.costs.push_back({"starter-chat", "token", {}, milliseconds(10)});
  all.kept.push_back({.id = "3f9c", .space = sd, .cells = {64, 64}, .dtype = "f32"});
  all.kept.push_back({.id = "0ld1", .space = sd, .cells = {64, 64}, .expired = true});
  all.kept.push_back({.id = "ha1f",
                      .space = sd,
                      .cells = {64, 64},
                      .noise = Noise{.done = 8, .steps = 20, .sampler = "ddim"}});
  all.scope = "ada";
  return all;
}

}  // namespace lares::sketch
