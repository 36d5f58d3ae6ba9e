// Bodies that ask for pictures - a sketch, OpenAI's images, A1111's txt2img and img2img - checked,
// and turned into a planned sketch.
//
// Pure; any thread. Fields that are unknown are ignored; a known one of a wrong type or beyond its
// range is an error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "server/errors.h"
#include "server/generation.h"
#include "server/service.h"
#include "sketch/problem.h"
#include "sketch/tree.h"

namespace lares::server {

inline constexpr std::int64_t kPicturesMax = 10;  // Of one request, as OpenAI.

// A faulty sketch has problems; anything else wrong is in `error` alone.
struct SketchRefusal {
  ApiError error;
  sketch::Problems problems{};
};
HttpResponse refusal_response(const SketchRefusal& refusal);

struct SketchAsked {
  sketch::Sketch sketch;
  std::vector<SketchInput> inputs;
  bool previews = false;
  // How to answer, for the forms of others.
  std::string response_format = "b64_json";
  std::vector<std::uint64_t> seeds{};
  std::string parameters{};  // A1111's: what was asked, as JSON.
  bool stream = false;       // OpenAI's, with so many pictures of what is becoming.
  std::uint32_t partial_images = 0;
};
using Asked = tl::expected<SketchAsked, SketchRefusal>;

// {"sketch": "text" or canonical JSON, "inputs": {name: text, [texts] or {"png": base64}},
//  "previews": true}
Asked read_sketch_request(std::string_view body);
// `seed`: of a request that names none.
Asked read_openai_image(std::string_view body, std::uint64_t seed);
// Of /v1/images/edits, as JSON (image_form.h).
Asked read_openai_edit(std::string_view body, std::uint64_t seed);
Asked read_a1111(std::string_view body, bool from_image, std::uint64_t seed);
// Of any path that makes pictures (work.h).
Asked read_picture_request(std::string_view path, std::string_view body, std::uint64_t seed);

// Plans it for that member. Errors: its problems, and what cannot be carried out.
tl::expected<sketch::Plan, SketchRefusal> plan_sketch(const SketchAsked& asked, CatalogueNow now,
                                                      MemberId member);

}  // namespace lares::server
