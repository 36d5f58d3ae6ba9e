#include "server/sketch_request.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/json.h"
#include "server/openai_request.h"
#include "server/png.h"
#include "server/sketch_support.h"
#include "sketch/json_form.h"
#include "sketch/parser.h"
#include "sketch/planner.h"

namespace lares::server {
namespace {

using json::Fields;
using json::Problem;
using json::Value;
using sketch::Decimal;
using SketchValue = sketch::Value;

constexpr std::uint32_t kSideMax = 2048;  // Pixels of a picture; as the engine's.
constexpr std::int64_t kSeedMax = std::int64_t{1} << 53;
constexpr std::size_t kInputsMax = 64;

tl::unexpected<SketchRefusal> refused(ApiError error) {
  return tl::unexpected(SketchRefusal{std::move(error)});
}

tl::unexpected<SketchRefusal> refused(Problem problem) {
  ApiError error;
  error.message = std::move(problem.message);
  error.param = std::move(problem.param);
  return refused(std::move(error));
}

tl::unexpected<SketchRefusal> faulty(sketch::Problems problems) {
  ApiError error;
  error.param = "sketch";
  error.error_code = "sketch_faulty";
  error.message = sketch::to_text(problems.front());
  return tl::unexpected(SketchRefusal{std::move(error), std::move(problems)});
}

// What other interfaces say about one picture.
struct PictureAsk {
  std::string model{}, prompt{}, negative{}, sampler{};
  std::optional<sketch::Size> size{};
  std::optional<std::int64_t> steps{};
  std::optional<double> cfg{}, strength{};
  std::vector<std::uint64_t> seeds{};
  bool from_image = false;
};

// Braces in words that came from elsewhere insert nothing.
SketchValue words(const std::string& text) {
  std::string raw;
  for (const char letter : text) {
    raw += letter;
    if (letter == '{') raw += letter;
  }
  return SketchValue::quoted(std::move(raw));
}

SketchValue number_of(double value) {
  return SketchValue::of(sketch::Number{.value = Decimal::millionths(std::llround(value * 1e6))});
}

sketch::Argument keyed(std::string key, SketchValue value) {
  return {.key = std::move(key), .place = {}, .value = std::move(value)};
}

sketch::Stage encode_stage(const PictureAsk& ask) {
  sketch::Stage stage{.name = "encode", .place = {}, .arguments = {}};
  if (!ask.negative.empty()) stage.arguments.push_back(keyed("no", words(ask.negative)));
  return stage;
}

sketch::Stage sample_stage(const PictureAsk& ask) {
  sketch::Stage stage{.name = "sample", .place = {}, .arguments = {}};
  if (ask.from_image) {
    stage.arguments.push_back(keyed(
        "",
        SketchValue::of(sketch::Flow{.source = words(ask.prompt), .stages = {encode_stage(ask)}})));
  }
  if (ask.steps) stage.arguments.push_back(keyed("", number_of(static_cast<double>(*ask.steps))));
  if (!ask.sampler.empty()) stage.arguments.push_back(keyed("", SketchValue::word(ask.sampler)));
  if (ask.cfg) stage.arguments.push_back(keyed("cfg", number_of(*ask.cfg)));
  if (ask.strength) stage.arguments.push_back(keyed("from", number_of(*ask.strength)));
  std::vector<SketchValue> seeds;
  for (const std::uint64_t seed : ask.seeds) {
    seeds.push_back(
        SketchValue::of(sketch::Number{.value = Decimal::whole(static_cast<std::int64_t>(seed))}));
  }
  stage.arguments.push_back(
      keyed("seed", seeds.size() == 1 ? seeds.front() : SketchValue::list(std::move(seeds))));
  return stage;
}

sketch::Sketch sketch_of(const PictureAsk& ask) {
  sketch::Sketch sketch;
  const auto line = [&sketch](auto what) {
    sketch.lines.push_back({.place = {}, .comment = {}, .what = std::move(what)});
  };
  if (!ask.model.empty() || ask.size) {
    sketch::Use use;
    use.model = ask.model.empty() ? "auto" : ask.model;
    use.at = ask.size;
    line(std::move(use));
  }
  sketch::Out out;
  out.medium = "png";
  if (ask.from_image) {
    sketch::In in;
    in.name = "photo";
    in.type.kind = "Pixels";
    line(std::move(in));
    out.flow.source = SketchValue::word("photo");
    out.flow.stages = {sketch::Stage{.name = "latent", .place = {}, .arguments = {}},
                       sample_stage(ask)};
  } else {
    out.flow.source = words(ask.prompt);
    out.flow.stages = {encode_stage(ask), sample_stage(ask)};
  }
  line(std::move(out));
  return sketch;
}

std::string text_or(const Fields& body, std::string_view name, std::string fallback = {}) {
  const std::string* text = body.string(name);
  return text == nullptr ? std::move(fallback) : *text;
}

// "512x768"; "auto" and nothing are the model's own.
std::optional<sketch::Size> read_size(const Fields& body) {
  const std::string size = text_or(body, "size", "auto");
  if (size == "auto") return std::nullopt;
  sketch::Size read;
  const std::size_t x = size.find('x');
  const auto side = [&](std::string_view digits) -> std::uint32_t {
    const auto number = Decimal::parse(digits);
    const bool good = number && number->is_whole() && number->units <= 1'000'000;
    return good ? static_cast<std::uint32_t>(number->units) : 0;
  };
  if (x != std::string::npos)
    read = {side(std::string_view(size).substr(0, x)), side(std::string_view(size).substr(x + 1))};
  if (read.width == 0 || read.height == 0) {
    body.note("size", fmt::format("must be like \"512x512\" or \"auto\", not \"{}\"", size));
    return std::nullopt;
  }
  return read;
}

std::vector<std::uint64_t> seeds_from(std::uint64_t first, std::int64_t n) {
  std::vector<std::uint64_t> seeds;
  for (std::int64_t i = 0; i < n; ++i) seeds.push_back(first + static_cast<std::uint64_t>(i));
  return seeds;
}

std::string digest_of(const SketchInput& input) {
  std::string all = input.picture ? "picture" : "texts";
  for (const std::string& text : input.texts) all += fmt::format("\n{}:{}", text.size(), text);
  if (input.picture) {
    all += fmt::format("\n{}x{}\n", input.picture->size.width, input.picture->size.height);
    all.append(input.picture->rgb.begin(), input.picture->rgb.end());
  }
  return sketch::digest_of(all);
}

void read_picture(const Fields& body, std::string_view name, const std::string& base64,
                  SketchInput& out) {
  const auto bytes = read_base64(base64);
  if (!bytes) return body.note(name, "must be a PNG in base64");
  auto picture = read_png(*bytes);
  if (!picture) return body.note(name, fmt::format("cannot be taken: {}", picture.error().message));
  out.picture = std::make_shared<const engine::Picture>(std::move(*picture));
}

void read_input(const Fields& inputs, const std::string& name, const Value& value,
                std::vector<SketchInput>& out) {
  SketchInput& input = out.emplace_back();
  input.name = name;
  if (const auto* text = value.as<std::string>()) {
    input.texts = {*text};
  } else if (const auto* list = value.as<json::Array>()) {
    input.list = true;
    for (const Value& item : *list) {
      const auto* text_item = item.as<std::string>();
      if (text_item == nullptr) return inputs.note(name, "must be a list of strings");
      input.texts.push_back(*text_item);
    }
  } else if (const Value* png = value.find("png"); png != nullptr && png->as<std::string>()) {
    read_picture(inputs, name, *png->as<std::string>(), input);
  } else {
    inputs.note(name, "must be a string, a list of strings, or {\"png\": base64}");
  }
}

std::string without_braces(std::string_view raw) {
  std::string out;
  for (const sketch::Piece& piece : sketch::pieces_of(raw).value_or(std::vector<sketch::Piece>{}))
    out += piece.text;
  return out;
}

// What inputs are when they are not given.
void add_defaults(SketchAsked& asked) {
  for (const sketch::Line& line : asked.sketch.lines) {
    const auto* in = std::get_if<sketch::In>(&line.what);
    if (in == nullptr || !in->initial) continue;
    if (std::ranges::find(asked.inputs, in->name, &SketchInput::name) != asked.inputs.end())
      continue;
    SketchInput& input = asked.inputs.emplace_back();
    input.name = in->name;
    input.list = in->initial->kind == SketchValue::Kind::List;
    if (!input.list) input.texts = {without_braces(in->initial->text)};
    for (const SketchValue& item : in->initial->items)
      input.texts.push_back(without_braces(item.text));
  }
}

}  // namespace

HttpResponse refusal_response(const SketchRefusal& refusal) {
  HttpResponse response = error_response(refusal.error);
  if (refusal.problems.empty()) return response;
  // {"error":{...},"errors":[...]}: the second as `lares sketch check --json` prints it.
  response.body.back() = ',';
  response.body += sketch::to_json(refusal.problems).substr(1);
  return response;
}

Asked read_sketch_request(std::string_view text) {
  auto parsed = json::parse(text);
  if (!parsed) return refused(unreadable_body(std::move(parsed.error())));
  Problem problem;
  const Fields body(*parsed, "", problem);
  SketchAsked out;
  const Value* given = body.find("sketch");
  if (given == nullptr) {
    body.note("sketch", "is required: its text, or its canonical JSON");
    return refused(std::move(problem));
  }
  const auto* words = given->as<std::string>();
  auto read = words != nullptr ? sketch::parse(*words) : sketch::read_json(json::to_text(*given));
  if (!read.problems.empty()) return faulty(std::move(read.problems));
  out.sketch = std::move(read.sketch);
  out.previews = body.boolean("previews").value_or(false);
  if (const json::Object* inputs = body.object("inputs")) {
    const Fields fields(*body.find("inputs"), "inputs", problem);
    if (inputs->size() > kInputsMax)
      body.note("inputs", fmt::format("are {}; at most {}", inputs->size(), kInputsMax));
    for (const auto& [name, value] : *inputs) {
      if (!problem) read_input(fields, name, value, out.inputs);
    }
  }
  if (problem) return refused(std::move(problem));
  add_defaults(out);
  return out;
}

namespace {

// What OpenAI's two calls have in common.
void read_openai(const Fields& body, std::uint64_t seed, PictureAsk& ask, SketchAsked& out) {
  ask.model = text_or(body, "model");
  ask.prompt = text_or(body, "prompt");
  if (ask.model == "default") ask.model.clear();
  if (ask.prompt.empty()) body.note("prompt", "is required: what the picture shows");
  ask.negative = text_or(body, "negative_prompt");
  ask.size = read_size(body);
  ask.steps = body.integer("steps", 1, 500);
  ask.cfg = body.number("cfg", 0, 100);
  const auto first = body.integer("seed", 0, kSeedMax);
  const std::int64_t n = body.integer("n", 1, kPicturesMax).value_or(1);
  ask.seeds = out.seeds = seeds_from(first ? static_cast<std::uint64_t>(*first) : seed, n);
  out.response_format = text_or(body, "response_format", "b64_json");
  if (out.response_format != "b64_json" && out.response_format != "url")
    body.note("response_format", "must be \"b64_json\" or \"url\"");
  if (text_or(body, "output_format", "png") != "png")
    body.note("output_format", "must be \"png\"; others are not written yet");
  out.stream = body.boolean("stream").value_or(false);
  const auto partial = body.integer("partial_images", 0, 3);
  if (out.stream) out.partial_images = static_cast<std::uint32_t>(partial.value_or(0));
  out.previews = out.partial_images > 0;
}

Asked read_openai(std::string_view text, std::uint64_t seed, bool edits) {
  auto parsed = json::parse(text);
  if (!parsed) return refused(unreadable_body(std::move(parsed.error())));
  Problem problem;
  const Fields body(*parsed, "", problem);
  SketchAsked out;
  PictureAsk ask;
  read_openai(body, seed, ask, out);
  if (edits) {
    ask.from_image = true;
    ask.strength = body.number("strength", 0, 1).value_or(0.75);
    const std::string* image = body.string("image");
    SketchInput& photo = out.inputs.emplace_back();
    photo.name = "photo";
    if (image == nullptr) {
      body.note("image", "is required: a PNG, as a file of a form or in base64");
    } else {
      read_picture(body, "image", *image, photo);
    }
  }
  if (problem) return refused(std::move(problem));
  out.sketch = sketch_of(ask);
  return out;
}

}  // namespace

Asked read_openai_image(std::string_view text, std::uint64_t seed) {
  return read_openai(text, seed, false);
}

Asked read_openai_edit(std::string_view text, std::uint64_t seed) {
  return read_openai(text, seed, true);
}

Asked read_a1111(std::string_view text, bool from_image, std::uint64_t seed) {
  auto parsed = json::parse(text);
  if (!parsed) return refused(unreadable_body(std::move(parsed.error())));
  Problem problem;
  const Fields body(*parsed, "", problem);
  SketchAsked out;
  PictureAsk ask{.prompt = text_or(body, "prompt"),
                 .negative = text_or(body, "negative_prompt"),
                 .from_image = from_image};
  if (const json::Object* settings = body.object("override_settings");
      settings != nullptr && body.find("override_settings")->find("sd_model_checkpoint")) {
    const Fields fields(*body.find("override_settings"), "override_settings", problem);
    ask.model = text_or(fields, "sd_model_checkpoint");
  }
  const auto width = body.integer("width", 1, 1 << 20), height = body.integer("height", 1, 1 << 20);
  if (width.has_value() != height.has_value())
    body.note(width ? "height" : "width", "is required beside the other side");
  if (width && height)
    ask.size = {static_cast<std::uint32_t>(*width), static_cast<std::uint32_t>(*height)};
  ask.steps = body.integer("steps", 1, 500);
  ask.cfg = body.number("cfg_scale", 0, 100);
  const auto first = body.integer("seed", -1, kSeedMax);
  const std::int64_t batch = body.integer("batch_size", 1, kPicturesMax).value_or(1);
  const std::int64_t times = body.integer("n_iter", 1, kPicturesMax).value_or(1);
  if (batch * times > kPicturesMax)
    body.note("n_iter", fmt::format("times batch_size is at most {}", kPicturesMax));
  ask.seeds = out.seeds =
      seeds_from(first && *first >= 0 ? static_cast<std::uint64_t>(*first) : seed, batch * times);
  if (from_image) {
    ask.strength = body.number("denoising_strength", 0, 1).value_or(0.75);
    const json::Array* images = body.array("init_images");
    const auto* image =
        images == nullptr || images->empty() ? nullptr : images->front().as<std::string>();
    SketchInput& photo = out.inputs.emplace_back();
    photo.name = "photo";
    if (image == nullptr) {
      body.note("init_images", "is required: a PNG in base64");
    } else {
      read_picture(body, "init_images", *image, photo);
    }
  }
  if (problem) return refused(std::move(problem));
  json::Object asked;
  for (const auto& [name, value] : *parsed->as<json::Object>()) {
    if (name != "init_images") asked.emplace_back(name, value);
  }
  out.parameters = json::to_text(Value(std::move(asked)));
  out.sketch = sketch_of(ask);
  return out;
}

Asked read_picture_request(std::string_view path, std::string_view body, std::uint64_t seed) {
  if (path == "/v1/sketches") return read_sketch_request(body);
  if (path == "/v1/images/generations") return read_openai_image(body, seed);
  if (path == "/v1/images/edits") return read_openai_edit(body, seed);
  return read_a1111(body, path.ends_with("/img2img"), seed);
}

tl::expected<sketch::Plan, SketchRefusal> plan_sketch(const SketchAsked& asked, CatalogueNow now,
                                                      MemberId member) {
  sketch::Catalogue& catalogue = now.catalogue;
  catalogue.scope = fmt::format("{}", member.value);
  for (const SketchInput& input : asked.inputs) {
    sketch::InputFact fact{.name = input.name, .digest = digest_of(input)};
    if (input.picture)
      fact.size = sketch::Size{input.picture->size.width, input.picture->size.height};
    if (input.list) fact.count = static_cast<std::uint32_t>(input.texts.size());
    catalogue.inputs.push_back(std::move(fact));
  }
  auto planned = sketch::make_plan(asked.sketch, catalogue, {.side = kSideMax});
  if (!planned.problems.empty() && !now.complete) {
    ApiError error;
    error.code = Code::Unavailable;
    error.error_code = "not_ready";
    error.message = "models are still being looked at; try again in a moment";
    error.retry_after = 1;
    return refused(std::move(error));
  }
  if (!planned.problems.empty()) return faulty(std::move(planned.problems));
  for (const sketch::Node& node : planned.plan.nodes) {
    if (node.op != "input") continue;
    const std::string& name = node.at_run.front().second;
    const auto given = std::ranges::find(asked.inputs, name, &SketchInput::name);
    const bool pixels = node.type.kind == sketch::Type::Kind::Pixels;
    const bool good = given != asked.inputs.end() && pixels == (given->picture != nullptr) &&
                      node.type.list == given->list && (pixels || !given->texts.empty());
    if (good) continue;
    ApiError error;
    error.param = "inputs." + name;
    error.error_code = "input_missing";
    error.message =
        fmt::format("the input `{}` is {}, and {}", name, node.type.text(),
                    given == asked.inputs.end() ? "is not given" : "is given otherwise");
    return refused(std::move(error));
  }
  auto why = cannot_run(planned.plan);
  if (!why) why = too_many_chunks(planned.plan, asked.inputs);
  if (why) {
    ApiError error;
    error.code = Code::Unsupported;
    error.param = "sketch";
    error.error_code = "sketch_unsupported";
    error.message = std::move(*why);
    return refused(std::move(error));
  }
  return std::move(planned.plan);
}

}  // namespace lares::server
