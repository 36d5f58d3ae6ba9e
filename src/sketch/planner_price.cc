// What must run, the memory that it needs, and what it costs.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/text.h"
#include "sketch/builder.h"

namespace lares::sketch {
namespace {

class Prices {
 public:
  Prices(Plan& plan, const Catalogue& catalogue, Problems& problems)
      : plan_(plan), catalogue_(catalogue), problems_(problems) {}

  void run() {
    mark_needed();
    for (Node& node : plan_.nodes) {
      const Model* model = catalogue_.find(node.model);
      node.price = model == nullptr ? Duration(0) : price(node, *model);
      if (model != nullptr) memory(node, *model);
      if (!node.needed) continue;
      if (node.price) {
        plan_.price += *node.price;
      } else if (const std::string what = fmt::format("{} {}", node.op, node.model);
                 std::ranges::find(plan_.unmeasured, what) == plan_.unmeasured.end()) {
        plan_.unmeasured.push_back(what);
      }
    }
  }

 private:
  // From what is put out or kept back to what it is made of; what is cached needs nothing.
  void mark_needed() {
    for (std::size_t i = plan_.nodes.size(); i-- > 0;) {
      Node& node = plan_.nodes[i];
      node.needed = (node.needed || node.op == "out" || node.op == "keep") && !node.cached;
      if (!node.needed) continue;
      for (const std::uint32_t input : node.inputs) plan_.nodes[input].needed = true;
    }
  }

  // In pixels.
  Size pixels_of(const Node& node) const {
    if (node.type.kind != Type::Kind::Latent) return node.type.size;
    const std::uint32_t factor = node.type.space.factor;
    return {node.type.size.width * factor, node.type.size.height * factor};
  }

  std::optional<Duration> price(Node& node, const Model& model) const {
    const auto times = [](std::optional<Duration> each, std::int64_t n) -> std::optional<Duration> {
      if (!each) return std::nullopt;
      return Duration(scaled(each->count(), n, 1));
    };
    const std::int64_t count = node.type.list ? std::max<std::uint32_t>(node.type.count, 1) : 1;
    if (node.op == "sample") {
      const std::uint32_t end = node.type.noise ? node.type.noise->done : all_steps(node);
      const std::uint32_t begin = end - node.steps;
      std::uint32_t steps = node.steps;
      if (node.resumes_at > begin) steps = end - std::min(node.resumes_at, end);
      return times(catalogue_.cost(model, "step", pixels_of(node)), count * steps * node.rows);
    }
    if (node.op == "decode" || node.op == "latent") {
      return times(catalogue_.cost(model, node.op, pixels_of(node)), count);
    }
    if (node.op == "encode") {
      return times(catalogue_.cost(model, "encode", {}),
                   count * static_cast<std::int64_t>(node.inputs.size()));
    }
    if (node.op == "embed") return times(catalogue_.cost(model, "embed", {}), count);
    for (const auto& [key, text] : node.at_run) {
      if (key != "max") continue;
      const auto most = Decimal::parse(text);
      return times(catalogue_.cost(model, "token", {}), count * (most ? most->units : 0));
    }
    return std::nullopt;  // An `ask` without a `max`: nobody knows how long.
  }

  static std::uint32_t all_steps(const Node& node) {
    for (const auto& [key, text] : node.fixed) {
      if (key != "steps") continue;
      const auto steps = Decimal::parse(text);
      return steps ? static_cast<std::uint32_t>(steps->units) : 0;
    }
    return 0;
  }

  void memory(Node& node, const Model& model) {
    const Size pixels = pixels_of(node);
    const std::int64_t area = std::int64_t{pixels.width} * pixels.height;
    const std::int64_t free =
        catalogue_.device_memory.count - catalogue_.leased.count - model.weights.count;
    const bool limited = catalogue_.device_memory.count > 0;
    if (node.op == "sample") {
      const std::int64_t cells = std::int64_t{node.type.size.width} * node.type.size.height;
      node.memory = Bytes{scaled(model.step_bytes_per_cell, cells * node.rows, 1)};
      if (limited && node.memory.count > free) refuse(node, model, "a step", pixels);
    } else if (node.op == "decode" || node.op == "latent") {
      node.memory = Bytes{scaled(model.decode_bytes_per_pixel, area, 1)};
      if (limited && node.memory.count > free) tile(node, model, pixels, free);
    } else if (limited && free < 0) {
      refuse(node, model, "", pixels);
    }
    plan_.memory = std::max(plan_.memory, model.weights + node.memory);
  }

  // The largest tile that fits, by halves.
  void tile(Node& node, const Model& model, Size pixels, std::int64_t free) {
    std::uint32_t side = std::max(pixels.width, pixels.height);
    Bytes needs = node.memory;
    while (needs.count > free && side / 2 >= model.tile_least) {
      side /= 2;
      needs = Bytes{scaled(model.decode_bytes_per_pixel, std::int64_t{side} * side, 1)};
    }
    if (needs.count > free) return refuse(node, model, "a tile of", {side, side});
    node.tile = side;
    node.notes.push_back(
        {Check::M1, fmt::format("in tiles of {}x{}: {} instead of {}", side, side,
                                format_bytes(needs.count), format_bytes(node.memory.count))});
    node.memory = needs;
  }

  void refuse(const Node& node, const Model& model, std::string_view what, Size pixels) {
    const bool weights = model.weights + catalogue_.leased > catalogue_.device_memory;
    if (weights && !refused_.insert(model.name).second) return;
    if (weights) what = "";
    std::string needs = fmt::format("{} for its weights", format_bytes(model.weights.count));
    if (!what.empty()) {
      const std::int64_t each =
          node.op == "sample"
              ? node.memory.count
              : scaled(model.decode_bytes_per_pixel, std::int64_t{pixels.width} * pixels.height, 1);
      needs += fmt::format(" and {} for {} {}", format_bytes(each),
                           node.op == "sample" ? "a step at" : what, pixels.text());
    }
    problems_.push_back(
        {Check::M1, node.place,
         fmt::format(
             "{} needs {}; the device has {}, {} of it held by latents.\nA smaller picture, "
             "or weights in q8_0, would need less.",
             model.name, needs, format_bytes(catalogue_.device_memory.count),
             format_bytes(catalogue_.leased.count))});
  }

  Plan& plan_;
  const Catalogue& catalogue_;
  Problems& problems_;
  std::set<std::string> refused_;  // Models whose weights do not fit.
};

}  // namespace

void give_prices(Plan& plan, const Catalogue& catalogue, Problems& problems) {
  Prices(plan, catalogue, problems).run();
}

}  // namespace lares::sketch
