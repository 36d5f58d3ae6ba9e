#include "sketch/catalogue.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/hash.h"

namespace lares::sketch {
namespace {

std::int64_t area(Size size) {
  return std::int64_t{size.width} * size.height;
}

}  // namespace

std::string digest_of(std::string_view text) {
  const std::uint64_t first = hash_text(text);
  // The second half from a different beginning, so that one collision is not two.
  const std::uint64_t second = hash_text("lares sketch\n" + std::string(text));
  return fmt::format("{:016x}{:016x}", first, second);
}

std::string Space::digest() const {
  return digest_of(
      fmt::format("{}/{}/{}/{}/{}", family, channels, factor, scale.text(), shift.text()));
}

std::string Space::facts() const {
  const bool shifted = shift != Decimal{};
  return fmt::format("{}, x{}{}", family, scale.text(), shifted ? ", +" + shift.text() : "");
}

std::string space_name(const Space& space) {
  struct Known {
    std::string_view name, family;
    std::uint32_t channels;
    Decimal scale;
  };
  static const std::vector<Known> kKnown{{"sd", "KL-f8", 4, {18215, 5}},
                                         {"sdxl", "KL-f8", 4, {13025, 5}}};
  for (const Known& known : kKnown) {
    if (known.family == space.family && known.channels == space.channels &&
        known.scale == space.scale && space.shift == Decimal{}) {
      return std::string(known.name);
    }
  }
  std::string name;
  for (const char c : space.family) {
    if (c >= 'A' && c <= 'Z') name += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9' && !name.empty())) name += c;
  }
  return fmt::format("{}-{}", name.empty() ? "s" : name, space.digest().substr(0, 4));
}

const Model* Catalogue::find(std::string_view name) const {
  const auto found = std::ranges::find(models, name, &Model::name);
  return found == models.end() ? nullptr : &*found;
}

std::optional<Duration> Catalogue::cost(const Model& model, std::string_view what,
                                        Size size) const {
  const Cost* nearest = nullptr;
  const auto distance = [&](const Cost& cost) {
    const std::int64_t d = area(cost.size) - area(size);
    return d < 0 ? -d : d;
  };
  for (const Cost& cost : costs) {
    if (cost.model != model.name || cost.what != what) continue;
    if (nearest == nullptr || distance(cost) < distance(*nearest)) nearest = &cost;
  }
  if (nearest == nullptr) return std::nullopt;
  if (area(nearest->size) == 0 || area(size) == 0) return nearest->each;
  return Duration(scaled(nearest->each.count(), area(size), area(nearest->size)));
}

}  // namespace lares::sketch
