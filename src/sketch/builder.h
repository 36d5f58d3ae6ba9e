// The planner while it works: names, defaults and nodes so far. Internal to planner*.cc.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sketch/plan.h"
#include "sketch/planner.h"

namespace lares::sketch {

constexpr std::size_t kModelKinds = 3;
using Chosen = std::array<std::string, kModelKinds>;  // By ModelKind; "" = not chosen.

// A node with how the sketch speaks of it.
struct Operand {
  std::uint32_t node = 0;
  Place place;  // Where to say that it does not fit.
  std::string said;
};

// A stage with its arguments sorted out.
struct Call {
  const Stage* stage = nullptr;
  const StageSpec* spec = nullptr;
  std::vector<Operand> operands;  // What came through `|` first.
  std::optional<Value> number;
  std::string choice;
  const Model* model = nullptr;  // Written at the stage.
  std::map<std::string, const Argument*, std::less<>> keys;

  [[nodiscard]] const Value* key(std::string_view name) const;
  [[nodiscard]] Place key_place(std::string_view name) const;
};

class Builder {
 public:
  Builder(const Sketch& sketch, const Catalogue& catalogue, const Limits& limits, Chosen chosen);

  Planned build();
  [[nodiscard]] const std::array<bool, kModelKinds>& open_choices() const { return open_; }

 private:
  struct Known {
    std::uint32_t node = 0;
    Place place;
    bool input = false;
  };
  struct Default {
    const Model* model = nullptr;  // nullptr with `said`: `auto`.
    const Use* use = nullptr;
  };

  // planner.cc: lines and names.
  void line(const Line& line);
  void use(const Use& use);
  void input(const In& in);
  void bind(const Bind& bind);
  void out(const Out& out);
  void keep(const Keep& keep);
  void want(const Want& want);
  bool free_name(const std::string& name, Place place);
  std::uint32_t flow(const Flow& flow);
  std::uint32_t stage(const Stage& stage, std::optional<Operand> piped);
  Operand value(const Value& value);
  Operand word(const Value& value);
  std::uint32_t text(const Value& value);
  std::uint32_t handle(const Value& value);
  [[nodiscard]] std::string model_with(const Space& space) const;
  std::uint32_t list(const Value& value);
  void annotate(const TypeNote& note, std::uint32_t node);
  [[nodiscard]] std::string unknown_word(const std::string& name) const;

  // planner_call.cc: arguments.
  std::optional<Call> call(const Stage& stage, const StageSpec& spec, std::optional<Operand> piped);
  bool named_argument(Call& call, const Argument& argument);
  const Model* model_named(const std::string& name, Place place, ModelKind kind);
  // The stage's own, or the default of its kind; nullptr after a problem.
  const Model* model_of(const Call& call);
  [[nodiscard]] const Use* use_of(const Model& model) const;

  // planner_stages.cc, planner_sample.cc: each stage's node; its type is Unknown after a problem.
  Node encode(const Call& call);
  Node sample(const Call& call);
  Node resize(const Call& call);
  Node latent(const Call& call);
  Node pixels(const Call& call);
  Node blend(const Call& call);
  Node walk(const Call& call);
  Node ask(const Call& call);
  Node embed(const Call& call);
  Node chunk(const Call& call);
  bool sample_fresh(const Call& call, const Model& model, Node& node);
  bool sample_on(const Call& call, const Model& model, const Operand& from, Node& node);
  bool sample_arguments(const Call& call, const Model& model, Node& node);
  bool check_cond(const Operand& cond, const Model& model);
  bool check_space(const Operand& latent, const Model& model);
  bool two_latents(const Call& call);
  [[nodiscard]] std::string hop_price(const Space& from, const Model& to, Size pixels) const;
  Size shape_for(const Model& model);
  [[nodiscard]] std::string dtype_for(const Model& model) const;

  // Helpers.
  void problem(Check check, Place place, std::string message);
  [[nodiscard]] const Type& type_of(const Operand& operand) const;
  bool wants(const Operand& operand, Type::Kind kind, std::string_view stage);
  bool single(const Operand& operand, std::string_view key);  // Not a list.
  // The operands that a stage has: at least and at most so many. Says so otherwise.
  bool operands(const Call& call, std::size_t least, std::size_t most, std::string_view what);
  // A list if one of the operands is, its length the product of what is known.
  bool lift(const Call& call, Type& type);
  void cast(Node& node, const Operand& operand, const std::string& dtype);
  std::uint32_t add(Node node);

  const Sketch& sketch_;
  const Catalogue& catalogue_;
  const Limits& limits_;
  Chosen chosen_;
  std::array<bool, kModelKinds> open_{};  // A model of that kind was needed and none was named.
  std::array<Default, kModelKinds> defaults_{};
  std::map<std::string, Known, std::less<>> names_;
  std::map<std::string, Place, std::less<>> all_names_;  // Also those bound below.
  std::map<std::string, std::uint32_t> pure_;            // What a pure node is -> its index.
  std::map<std::string, Size> fit_sizes_;
  std::string binding_;  // The name whose flow is being planned.
  std::optional<std::string> quality_wish_;
  std::optional<Number> under_;
  Place under_place_;
  Planned planned_;
};

// planner_keys.cc: batch keys, value keys and the plan's key, for whole plans.
void give_keys(Plan& plan, const Catalogue& catalogue);
// planner_price.cc: what must run, how much memory and time it takes.
void give_prices(Plan& plan, const Catalogue& catalogue, Problems& problems);

}  // namespace lares::sketch
