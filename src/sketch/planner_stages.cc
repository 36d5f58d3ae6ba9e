// Each stage but `sample`: what it takes, and what comes out.
#include <algorithm>

#include <fmt/format.h>

#include "sketch/builder.h"
#include "sketch/printer.h"

namespace lares::sketch {
namespace {

using Kind = Type::Kind;

constexpr std::int64_t kMillion = 1000000;

std::string computed_in(const std::string& dtype) {
  return dtype == "q8_0" ? "f16" : dtype;
}

// `n` at least `multiple`, to the nearest multiple.
std::uint32_t bucketed(std::int64_t n, std::uint32_t multiple) {
  const std::int64_t times = std::max<std::int64_t>((n + multiple / 2) / multiple, 1);
  return static_cast<std::uint32_t>(std::min<std::int64_t>(times * multiple, 1U << 30U));
}

}  // namespace

Node Builder::encode(const Call& call) {
  Node node{.op = "encode"};
  if (!operands(call, 1, 1, "one text") || !wants(call.operands[0], Kind::Text, "encode"))
    return {};
  const Model* model = model_of(call);
  if (model == nullptr) return {};
  node.model = model->name;
  node.dtype = dtype_for(*model);
  node.type = {.kind = Kind::Cond,
               .name = model->encoder,
               .size = {model->cond_tokens, model->cond_width},
               .dtype = computed_in(node.dtype),
               .model = model->name};
  node.inputs = {call.operands[0].node};
  if (!lift(call, node.type)) return {};
  if (const Value* no = call.key("no")) {
    const Operand negative = value(*no);
    if (type_of(negative).kind == Kind::Unknown) return {};
    if (!wants(negative, Kind::Text, "no") || !single(negative, "no")) return {};
    node.inputs.push_back(negative.node);
  }
  return node;
}

Node Builder::resize(const Call& call) {
  Node node{.op = "resize"};
  if (!operands(call, 1, 1, "a latent or pixels")) return {};
  const Operand& from = call.operands[0];
  const Type& type = type_of(from);
  if (type.kind != Kind::Pixels && !wants(from, Kind::Latent, "resize")) return {};
  if (!call.number) {
    problem(Check::L1, call.stage->place, "`resize` wants a factor or a size, as in 2x or 768x512");
    return {};
  }
  if (type.noise) {
    problem(Check::T3, from.place,
            fmt::format("{} is {}: only clean latents are resized.\nLet it be finished first, or "
                        "resize before it begins.",
                        from.said, type.text()));
    return {};
  }
  const bool latent = type.kind == Kind::Latent;
  const Model* model = catalogue_.find(type.model);
  const std::uint32_t factor = latent ? type.space.factor : 1;
  const std::uint32_t multiple =
      !latent ? 1 : std::max(factor, model == nullptr ? factor : model->multiple);
  node.type = type;
  node.type.given = false;
  const Size pixels{type.size.width * factor, type.size.height * factor};
  Size wanted = call.number->size;
  if (call.number->kind == Value::Kind::Number) {
    const std::int64_t by = call.number->number.value.in_millionths().value_or(0);
    if (by == 0) {
      problem(Check::L1, call.number->place,
              "a factor is more than nothing, and no more than a million");
      return {};
    }
    const auto side = [&](std::uint32_t n) {
      return std::min<std::int64_t>(scaled(n, by, kMillion), 1U << 30U);
    };
    const Size exact{static_cast<std::uint32_t>(side(pixels.width)),
                     static_cast<std::uint32_t>(side(pixels.height))};
    wanted = {bucketed(exact.width, multiple), bucketed(exact.height, multiple)};
    if (pixels.width == 0) wanted = {};
    if (pixels.width != 0 && wanted != exact) {
      node.notes.push_back({Check::S1, fmt::format("{} becomes {}", exact.text(), wanted.text())});
    }
  } else if (wanted != Size{bucketed(wanted.width, multiple), bucketed(wanted.height, multiple)}) {
    problem(Check::S1, call.number->place,
            fmt::format(
                "{} does not suit {}, whose sides are multiples of {}.\nThe nearest is {}.",
                wanted.text(), model == nullptr ? "this latent" : model->name, multiple,
                Size{bucketed(wanted.width, multiple), bucketed(wanted.height, multiple)}.text()));
    return {};
  }
  if (wanted.width > limits_.side || wanted.height > limits_.side) {
    problem(
        Check::L2, call.number->place,
        fmt::format("that would be {}; a side has at most {} pixels", wanted.text(), limits_.side));
    return {};
  }
  node.type.size = {wanted.width / factor, wanted.height / factor};
  node.dtype = type.dtype;
  const std::string filter = call.choice.empty() ? "bilinear" : call.choice;
  node.fixed = {{"filter", filter}, {"to", print(*call.number)}};
  node.inputs = {from.node};
  return node;
}

Node Builder::latent(const Call& call) {
  Node node{.op = "latent"};
  if (!operands(call, 1, 1, "pixels") || !wants(call.operands[0], Kind::Pixels, "latent"))
    return {};
  const Model* model = model_of(call);
  if (model == nullptr) return {};
  const Type& type = type_of(call.operands[0]);
  const Use* use = use_of(*model);
  Size size = type.size;
  // A picture from outside is fitted to the shape that `use` asks for.
  if (type.given && use != nullptr && (use->at || use->fit)) size = shape_for(*model);
  const auto side = [&](std::uint32_t n) {
    return n == 0 ? 0 : std::max(n / model->multiple * model->multiple, model->multiple);
  };
  const Size good{side(size.width), side(size.height)};
  if (good != size) {
    node.notes.push_back({Check::S1, fmt::format("{} becomes {}", size.text(), good.text())});
  }
  node.model = model->name;
  node.dtype = dtype_for(*model);
  node.type = {.kind = Kind::Latent,
               .name = space_name(model->space),
               .size = {good.width / model->space.factor, good.height / model->space.factor},
               .dtype = computed_in(node.dtype),
               .space = model->space,
               .model = model->name};
  node.fixed = {{"shape", good.width == 0 && use != nullptr && use->fit
                              ? fmt::format("fit {}", *use->fit)
                              : good.text()}};
  node.inputs = {call.operands[0].node};
  if (!lift(call, node.type)) return {};
  return node;
}

Node Builder::pixels(const Call& call) {
  Node node{.op = "decode"};
  if (!operands(call, 1, 1, "a latent") || !wants(call.operands[0], Kind::Latent, "pixels")) {
    return {};
  }
  const Type& type = type_of(call.operands[0]);
  if (type.noise) {
    problem(
        Check::T3, call.operands[0].place,
        fmt::format("{} is {}: still noisy.\nLet it be finished first: `| sample c` runs the {} "
                    "steps that are left.",
                    call.operands[0].said, type.text(), type.noise->steps - type.noise->done));
    return {};
  }
  const Model* model = catalogue_.find(type.model);
  for (const Model& other : catalogue_.models) {
    if (model != nullptr || other.kind != ModelKind::Image) continue;
    if (other.space.digest() == type.space.digest()) model = &other;
  }
  if (model == nullptr) {
    problem(Check::T2, call.operands[0].place,
            fmt::format("{} is {} ({}), and no model here decodes that", call.operands[0].said,
                        type.text(), type.space.facts()));
    return {};
  }
  node.model = model->name;
  node.dtype = dtype_for(*model);
  const std::uint32_t factor = type.space.factor;
  node.type.kind = Kind::Pixels;
  node.type.list = type.list;
  node.type.count = type.count;
  node.type.size = {type.size.width * factor, type.size.height * factor};
  node.inputs = {call.operands[0].node};
  const std::string price = hop_price(type.space, *model, node.type.size);
  node.notes.push_back({Check::E1, "there and back again: " + price});
  return node;
}

bool Builder::two_latents(const Call& call) {
  if (!operands(call, 2, 2, "two latents")) return false;
  for (const Operand& operand : call.operands) {
    if (!wants(operand, Kind::Latent, call.spec->name)) return false;
    if (type_of(operand).noise) {
      problem(Check::T3, operand.place,
              fmt::format("{} is {}: `{}` takes clean latents", operand.said,
                          type_of(operand).text(), call.spec->name));
      return false;
    }
  }
  const Operand& a = call.operands[0];
  const Operand& b = call.operands[1];
  if (type_of(a).space.digest() != type_of(b).space.digest()) {
    problem(Check::T2, b.place,
            fmt::format("{} is {} ({}) and {} is {} ({}): numbers between them mean nothing",
                        a.said, type_of(a).text(), type_of(a).space.facts(), b.said,
                        type_of(b).text(), type_of(b).space.facts()));
    return false;
  }
  if (type_of(a).size == type_of(b).size) return true;
  problem(Check::S1, b.place,
          fmt::format("{} is {} and {} is {}; `resize` one of them", a.said, type_of(a).text(),
                      b.said, type_of(b).text()));
  return false;
}

Node Builder::blend(const Call& call) {
  Node node{.op = "blend"};
  if (!two_latents(call)) return {};
  std::int64_t weight = kMillion / 2;
  if (call.number) weight = call.number->number.value.in_millionths().value_or(kMillion + 1);
  if (weight > kMillion) {
    problem(Check::L1, call.number->place, "a weight is between 0 and 1");
    return {};
  }
  node.type = type_of(call.operands[0]);
  node.type.list = false;
  if (!lift(call, node.type)) return {};
  node.dtype = node.type.dtype;
  node.at_run = {{"weight", Decimal::millionths(weight).text()}};
  node.inputs = {call.operands[0].node, call.operands[1].node};
  cast(node, call.operands[1], node.dtype);
  return node;
}

Node Builder::walk(const Call& call) {
  Node node{.op = "walk"};
  if (!two_latents(call)) return {};
  const std::int64_t frames = call.number ? call.number->number.value.units : 0;
  if (frames < 2) {
    problem(Check::L1, call.number ? call.number->place : call.stage->place,
            "`walk` wants a number of frames, at least 2");
    return {};
  }
  node.type = type_of(call.operands[0]);
  node.type.list = false;
  if (!lift(call, node.type)) return {};
  const auto each = static_cast<std::uint32_t>(std::min<std::int64_t>(frames, 1U << 20U));
  node.type.count = node.type.list ? node.type.count * each : each;
  node.type.list = true;
  node.dtype = node.type.dtype;
  node.fixed = {{"frames", fmt::format("{}", frames)}};
  node.inputs = {call.operands[0].node, call.operands[1].node};
  cast(node, call.operands[1], node.dtype);
  return node;
}

Node Builder::ask(const Call& call) {
  Node node{.op = "ask"};
  if (!operands(call, 1, 2, "a text, and perhaps an instruction")) return {};
  for (const Operand& operand : call.operands) {
    if (!wants(operand, Kind::Text, "ask")) return {};
  }
  if (call.operands.size() == 2 && call.key("system") != nullptr) {
    problem(Check::L1, call.key_place("system"),
            "the instruction is there already; `system` says the same");
    return {};
  }
  const Model* model = model_of(call);
  if (model == nullptr) return {};
  node.model = model->name;
  node.dtype = dtype_for(*model);
  node.type.kind = Kind::Text;
  std::string roles = call.operands.size() == 2 ? "text system" : "text";
  for (const Operand& operand : call.operands) node.inputs.push_back(operand.node);
  if (!lift(call, node.type)) return {};
  for (const std::string_view key : {"system", "json"}) {
    const Value* said = call.key(key);
    if (said == nullptr) continue;
    const Operand given = value(*said);
    const Kind kind = type_of(given).kind;
    if (kind == Kind::Unknown) return {};
    if (!(key == "json" && kind == Kind::Json) && !wants(given, Kind::Text, key)) return {};
    if (!single(given, key)) return {};
    node.inputs.push_back(given.node);
    roles += fmt::format(" {}", key);
  }
  node.fixed = {{"takes", roles}};
  for (const std::string_view key : {"max", "temp", "seed"}) {
    if (const Value* said = call.key(key)) node.at_run.emplace_back(key, print(*said));
  }
  if (const Value* most = call.key("max");
      most != nullptr && most->number.value.units > limits_.tokens) {
    problem(Check::L2, most->place,
            fmt::format("{} tokens; at most {}", print(*most), limits_.tokens));
  }
  node.pure = call.key("seed") != nullptr;
  return node;
}

Node Builder::embed(const Call& call) {
  Node node{.op = "embed"};
  if (!operands(call, 1, 1, "one text") || !wants(call.operands[0], Kind::Text, "embed")) return {};
  const Model* model = model_of(call);
  if (model == nullptr) return {};
  node.model = model->name;
  node.dtype = dtype_for(*model);
  node.type.kind = Kind::Embedding;
  node.type.name = model->name;
  node.type.width = model->embedding_width;
  node.inputs = {call.operands[0].node};
  if (!lift(call, node.type)) return {};
  return node;
}

Node Builder::chunk(const Call& call) {
  Node node{.op = "chunk"};
  if (!operands(call, 1, 1, "one text") || !wants(call.operands[0], Kind::Text, "chunk")) return {};
  const std::int64_t tokens = call.number ? call.number->number.value.units : 0;
  if (tokens < 1) {
    problem(Check::L1, call.number ? call.number->place : call.stage->place,
            "`chunk` wants a number of tokens, as in 512");
    return {};
  }
  const Value* overlap = call.key("overlap");
  if (overlap != nullptr && overlap->number.value.units >= tokens) {
    problem(Check::L1, overlap->place, "chunks overlap by less than their length");
    return {};
  }
  node.type.kind = Kind::Text;
  node.type.list = true;
  node.fixed = {{"tokens", fmt::format("{}", tokens)}};
  if (overlap != nullptr) node.fixed.emplace_back("overlap", print(*overlap));
  node.inputs = {call.operands[0].node};
  return node;
}

}  // namespace lares::sketch
