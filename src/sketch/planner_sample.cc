// `sample`: on conditioning alone, on from a clean latent, or on along a schedule that was begun.
#include <fmt/format.h>

#include "sketch/builder.h"
#include "sketch/printer.h"

namespace lares::sketch {
namespace {

using Kind = Type::Kind;

constexpr std::int64_t kMillion = 1000000;

std::uint32_t whole(const Value& value) {
  return value.number.value.units > 1000000000
             ? 1000000000
             : static_cast<std::uint32_t>(value.number.value.units);
}

}  // namespace

std::string Builder::dtype_for(const Model& model) const {
  const Use* use = use_of(model);
  if (use != nullptr && !use->dtype.empty()) return use->dtype;
  return model.dtypes.empty() ? "f16" : model.dtypes.front();
}

Size Builder::shape_for(const Model& model) {
  const Use* use = use_of(model);
  if (use == nullptr) return model.usual;
  if (use->at) return *use->at;
  if (!use->fit) return model.usual;
  const auto known = names_.find(use->fit_name);
  if (known == names_.end()) return {};
  const Type& type = planned_.plan.nodes[known->second.node].type;
  const Size size = type.size;
  if (size.width == 0 || size.height == 0) return {};
  const std::uint32_t longest = std::max(size.width, size.height);
  const auto side = [&](std::uint32_t n) {
    const auto fitted = static_cast<std::uint32_t>(scaled(n, *use->fit, longest));
    return std::max(fitted / model.multiple * model.multiple, model.multiple);
  };
  return {side(size.width), side(size.height)};
}

bool Builder::check_cond(const Operand& cond, const Model& model) {
  const Type& type = type_of(cond);
  const std::string way = fmt::format("Encode the words for it: `| encode {}`.", model.name);
  if (type.size.height != model.takes_width) {
    problem(Check::S1, cond.place,
            fmt::format("{} is {}, of width {}; {} reads conditioning of width {}.\n{}", cond.said,
                        type.text(), type.size.height, model.name, model.takes_width, way));
    return false;
  }
  if (type.name == model.encoder) return true;
  problem(Check::T1, cond.place,
          fmt::format("{} comes from the encoder {}; {} was made for {}.\n{}", cond.said, type.name,
                      model.name, model.encoder, way));
  return false;
}

// "about 4.5 U-Net steps at 512x512"
std::string Builder::hop_price(const Space& from, const Model& to, Size pixels) const {
  std::optional<Duration> decode;
  for (const Model& model : catalogue_.models) {
    if (decode || model.kind != ModelKind::Image) continue;
    if (model.space.digest() == from.digest()) decode = catalogue_.cost(model, "decode", pixels);
  }
  const auto encode = catalogue_.cost(to, "latent", pixels);
  const auto step = catalogue_.cost(to, "step", pixels);
  if (!decode || !encode || !step || step->count() <= 0) return "its price is not measured yet";
  const std::int64_t tenths = scaled(decode->count() + encode->count(), 10, step->count());
  return fmt::format("about {} U-Net steps{}", Decimal::millionths(tenths * (kMillion / 10)).text(),
                     pixels.width == 0 ? "" : " at " + pixels.text());
}

bool Builder::check_space(const Operand& latent, const Model& model) {
  const Type& type = type_of(latent);
  if (type.space.digest() == model.space.digest()) return true;
  const Size pixels{type.size.width * type.space.factor, type.size.height * type.space.factor};
  const std::string own = space_name(model.space);
  const std::string channels =
      type.space.channels == model.space.channels
          ? fmt::format("Both have {} channels, so the shapes agree and the pictures would not.",
                        type.space.channels)
          : fmt::format("It has {} channels, and {} are wanted.", type.space.channels,
                        model.space.channels);
  problem(Check::T2, latent.place,
          fmt::format("{} is {} ({}); {} wants Latent {} ({}).\n{}\nUse {} {} model, or cross with "
                      "`| pixels | latent {}` ({}).",
                      latent.said,
                      Type{.kind = Kind::Latent, .name = type.name, .size = type.size}.text(),
                      type.space.facts(), model.name, own, model.space.facts(), channels,
                      type.name.starts_with("sd") ? "an" : "a", type.name, model.name,
                      hop_price(type.space, model, pixels)));
  return false;
}

bool Builder::sample_arguments(const Call& call, const Model& model, Node& node) {
  const Value* cfg = call.key("cfg");
  std::int64_t millionths = node.type.noise ? node.type.noise->cfg_millionths
                                            : model.cfg.in_millionths().value_or(kMillion);
  if (cfg != nullptr && cfg->kind == Value::Kind::Word) millionths = kMillion;
  if (cfg != nullptr && cfg->kind == Value::Kind::Number) {
    millionths = cfg->number.value.in_millionths().value_or(0);
    if (millionths > 100 * kMillion) {
      problem(Check::L2, cfg->place, "guidance is at most 100");
      return false;
    }
  }
  node.rows = millionths == kMillion ? 1 : 2;
  node.fixed.emplace_back("cfg", node.rows == 2 ? "on" : "off");
  if (node.rows == 2) node.at_run.emplace_back("cfg", Decimal::millionths(millionths).text());
  if (node.type.noise) node.type.noise->cfg_millionths = millionths;

  if (const Value* seed = call.key("seed")) {
    node.at_run.emplace_back("seed", print(*seed));
    if (seed->kind == Value::Kind::List) {
      node.type.count =
          (node.type.list ? node.type.count : 1) * static_cast<std::uint32_t>(seed->items.size());
      node.type.list = true;
    }
  }
  if (const Value* preview = call.key("preview")) {
    node.at_run.emplace_back("preview", print(*preview));
  }
  if (const Value* every = call.key("every")) {
    if (call.key("preview") == nullptr) {
      problem(Check::L1, call.key_place("every"),
              "`every` belongs to a preview: `preview proj every 300ms`");
      return false;
    }
    node.at_run.emplace_back("every", print(*every));
  }
  return true;
}

// The steps of a schedule from its beginning, or from the noise level `from`.
bool Builder::sample_fresh(const Call& call, const Model& model, Node& node) {
  std::uint32_t steps = model.steps;
  if (quality_wish_ == "draft" && model.steps_draft != 0) steps = model.steps_draft;
  if (quality_wish_ == "fine" && model.steps_fine != 0) steps = model.steps_fine;
  const Place place = call.number ? call.number->place : call.stage->place;
  if (call.number) steps = whole(*call.number);
  if (steps == 0) {
    problem(Check::T3, place, "no steps make no picture; write at least 1");
    return false;
  }
  if (steps > limits_.steps) {
    problem(Check::L2, place,
            fmt::format("{} steps; at most {}", print(*call.number), limits_.steps));
    return false;
  }
  std::uint32_t done = 0;
  if (const Value* from = call.key("from")) {
    const std::int64_t level = from->number.value.in_millionths().value_or(0);
    const auto run =
        static_cast<std::uint32_t>(scaled(steps, std::min(level, kMillion + 1), kMillion));
    if (level > kMillion || run == 0) {
      problem(
          Check::T3, from->place,
          fmt::format("from {} of {} steps: the level of noise is between 0 and 1, and at least "
                      "one step is run",
                      from->number.text(), steps));
      return false;
    }
    done = steps - run;
    node.at_run.emplace_back("from", from->number.text());
  }
  const std::string sampler = call.choice.empty() ? model.sampler : call.choice;
  node.fixed.emplace_back("steps", fmt::format("{}", steps));
  node.fixed.emplace_back("sampler", sampler);
  node.type.noise = Noise{.done = done, .steps = steps, .sampler = sampler};
  node.type.noise->cfg_millionths = model.cfg.in_millionths().value_or(kMillion);
  // Without a seed each run draws its own noise.
  node.pure = call.key("seed") != nullptr;
  return true;
}

bool Builder::sample_on(const Call& call, const Model& model, const Operand& from, Node& node) {
  const Type& type = type_of(from);
  if (!wants(from, Kind::Latent, "sample") || !check_space(from, model)) return false;
  if (!type.noise) {
    if (call.key("from") != nullptr) return sample_fresh(call, model, node);
    problem(
        Check::T3, call.stage->place,
        fmt::format("{} is clean, so there is nothing to take away from it.\nSay how much noise "
                    "to add first: `from 0.55`.",
                    from.said));
    return false;
  }
  const std::pair<bool, std::string_view> not_here[] = {
      {call.number.has_value(), "a number of steps"},
      {call.key("from") != nullptr, "`from`"},
      {call.key("seed") != nullptr, "`seed`"},
      {!call.choice.empty(), "a sampler"}};
  for (const auto& [said, what] : not_here) {
    if (!said) continue;
    problem(Check::T3, call.number ? call.number->place : call.stage->place,
            fmt::format("{} is {}, in the middle of its schedule; {} cannot be said again.\nThe {} "
                        "steps that are left are run.",
                        from.said, type.text(), what, type.noise->steps - type.noise->done));
    return false;
  }
  node.type.noise = type.noise;
  node.fixed.emplace_back("steps", fmt::format("{}", type.noise->steps));
  node.fixed.emplace_back("sampler", type.noise->sampler);
  return true;
}

Node Builder::sample(const Call& call) {
  Node node{.op = "sample"};
  if (!operands(call, 1, 2, "conditioning, or a latent and conditioning")) return {};
  const bool on = call.operands.size() == 2;
  const Operand& cond = call.operands.back();
  if (!on && type_of(cond).kind == Kind::Latent) {
    problem(
        Check::T1, cond.place,
        fmt::format("{} is {}; `sample` wants conditioning beside it: `{} | sample c`", cond.said,
                    type_of(cond).text(), cond.said.starts_with("what") ? "..." : cond.said));
    return {};
  }
  if (on && !wants(call.operands.front(), Kind::Latent, "sample")) return {};
  if (!wants(cond, Kind::Cond, "sample")) return {};
  const bool chosen = defaults_[0].model != nullptr || type_of(cond).model.empty();
  const Model* model = chosen ? model_of(call) : catalogue_.find(type_of(cond).model);
  if (model == nullptr || !check_cond(cond, *model)) return {};
  node.model = model->name;
  node.dtype = dtype_for(*model);
  node.type = {.kind = Kind::Latent,
               .name = space_name(model->space),
               .dtype = node.dtype == "q8_0" ? "f16" : node.dtype,
               .space = model->space,
               .model = model->name};
  if (on) {
    node.type.size = type_of(call.operands.front()).size;
    if (!sample_on(call, *model, call.operands.front(), node)) return {};
  } else {
    if (call.key("from") != nullptr) {
      problem(Check::T3, call.key_place("from"),
              "`from` adds noise to a latent, and there is none: write `small | sample c 20 from "
              "0.55`");
      return {};
    }
    const Size pixels = shape_for(*model);
    node.type.size = {pixels.width / model->space.factor, pixels.height / model->space.factor};
    if (!sample_fresh(call, *model, node)) return {};
  }
  if (!lift(call, node.type)) return {};
  if (!sample_arguments(call, *model, node)) return {};
  Noise& noise = *node.type.noise;
  const std::uint32_t begin = noise.done;
  std::uint32_t end = noise.steps;
  if (const Value* until = call.key("until")) {
    end = whole(*until);
    if (end <= begin || end > noise.steps) {
      problem(Check::T3, until->place,
              fmt::format("until {}: this runs the steps {} to {} of {}", print(*until), begin + 1,
                          noise.steps, noise.steps));
      return {};
    }
    node.at_run.emplace_back("until", print(*until));
  }
  node.steps = end - begin;
  noise.done = end;
  if (end == noise.steps) node.type.noise.reset();
  for (const Operand& operand : call.operands) {
    node.inputs.push_back(operand.node);
    cast(node, operand, node.type.dtype);
  }
  return node;
}

}  // namespace lares::sketch
