#include "sketch/planner.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"
#include "sketch/builder.h"
#include "sketch/printer.h"

namespace lares::sketch {
namespace {

constexpr std::array<std::string_view, kModelKinds> kKindNames{"image model", "chat model",
                                                               "embedding model"};

// Better first: warm, then what `want` asks for, then the name.
struct Candidate {
  const Model* model = nullptr;
  Planned planned;
};

bool draft(const Sketch& sketch, std::string_view word) {
  for (const Line& line : sketch.lines) {
    const auto* want = std::get_if<Want>(&line.what);
    if (want == nullptr) continue;
    if (std::ranges::any_of(want->wishes, [&](const Wish& w) { return w.word == word; }))
      return true;
  }
  return false;
}

bool better(const Candidate& a, const Candidate& b, const Sketch& sketch) {
  if (a.planned.problems.empty() != b.planned.problems.empty()) return a.planned.problems.empty();
  if (draft(sketch, "fine") || draft(sketch, "under")) {
    if (a.model->quality != b.model->quality) return a.model->quality > b.model->quality;
  }
  if (a.model->warm != b.model->warm) return a.model->warm;
  if (a.planned.plan.unmeasured.empty() != b.planned.plan.unmeasured.empty()) {
    return a.planned.plan.unmeasured.empty();
  }
  if (a.planned.plan.price != b.planned.plan.price) {
    return a.planned.plan.price < b.planned.plan.price;
  }
  return a.model->name < b.model->name;
}

std::string reason(const Candidate& best, std::size_t among, const Sketch& sketch) {
  if (among == 1) return "the only one";
  std::string why = best.model->warm ? "warm" : "not warm yet";
  if (draft(sketch, "under")) why += ", the best that is fast enough";
  if (draft(sketch, "fine")) why += ", the finest";
  if (draft(sketch, "draft")) why += ", the fastest";
  return fmt::format("{}, of {}", why, among);
}

// A text, or a text of a list, has a name in braces.
bool inserts(const Value& value) {
  if (value.kind == Value::Kind::List) return std::ranges::any_of(value.items, inserts);
  const auto pieces = pieces_of(value.text);
  return pieces && std::ranges::any_of(*pieces, &Piece::insert);
}

}  // namespace

// Plans once, and where a model is to be chosen, once more for each that could be.
Planned make_plan(const Sketch& sketch, const Catalogue& catalogue, const Limits& limits) {
  Chosen chosen;
  std::vector<Choice> choices;
  Builder first(sketch, catalogue, limits, chosen);
  Planned planned = first.build();
  for (std::size_t kind = 0; kind < kModelKinds; ++kind) {
    if (!first.open_choices()[kind]) continue;
    std::vector<Candidate> candidates;
    for (const Model& model : catalogue.models) {
      if (!model.does(static_cast<ModelKind>(kind))) continue;
      chosen[kind] = model.name;
      candidates.push_back({&model, Builder(sketch, catalogue, limits, chosen).build()});
    }
    if (candidates.empty()) continue;
    auto best = std::ranges::min_element(
        candidates, [&](const Candidate& a, const Candidate& b) { return better(a, b, sketch); });
    chosen[kind] = best->model->name;
    choices.push_back({std::string(kKindNames.at(kind)), best->model->name,
                       reason(*best, candidates.size(), sketch)});
    planned = std::move(best->planned);
  }
  planned.plan.choices = std::move(choices);
  return planned;
}

Builder::Builder(const Sketch& sketch, const Catalogue& catalogue, const Limits& limits,
                 Chosen chosen)
    : sketch_(sketch), catalogue_(catalogue), limits_(limits), chosen_(std::move(chosen)) {}

Planned Builder::build() {
  for (const Line& line : sketch_.lines) {
    if (const auto* bind = std::get_if<Bind>(&line.what))
      all_names_.emplace(bind->name, bind->place);
    if (const auto* in = std::get_if<In>(&line.what)) all_names_.emplace(in->name, in->place);
    if (const auto* want = std::get_if<Want>(&line.what)) this->want(*want);
  }
  for (const Line& line : sketch_.lines) {
    if (planned_.problems.size() >= limits_.problems) break;
    this->line(line);
  }
  if (planned_.problems.empty()) {
    give_keys(planned_.plan, catalogue_);
    give_prices(planned_.plan, catalogue_, planned_.problems);
  }
  const Plan& plan = planned_.plan;
  if (planned_.problems.empty() && under_ && plan.price > Duration(*nanoseconds(*under_))) {
    problem(Check::E1, under_place_,
            fmt::format("this takes about {}, not under {}.\nFewer steps, a smaller picture or a "
                        "faster model would do; `want draft` chooses them.",
                        format_duration(plan.price), under_->text()));
  }
  std::ranges::stable_sort(planned_.problems, [](const Problem& a, const Problem& b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
  return std::move(planned_);
}

void Builder::problem(Check check, Place place, std::string message) {
  planned_.problems.push_back({check, place, std::move(message)});
}

void Builder::line(const Line& line) {
  if (const auto* use = std::get_if<Use>(&line.what)) this->use(*use);
  if (const auto* in = std::get_if<In>(&line.what)) input(*in);
  if (const auto* bind = std::get_if<Bind>(&line.what)) this->bind(*bind);
  if (const auto* out = std::get_if<Out>(&line.what)) this->out(*out);
  if (const auto* keep = std::get_if<Keep>(&line.what)) this->keep(*keep);
}

void Builder::want(const Want& want) {
  Plan& plan = planned_.plan;
  for (const Wish& wish : want.wishes) {
    if (wish.word == "draft" || wish.word == "fine") {
      if (quality_wish_ && *quality_wish_ != wish.word) {
        problem(Check::D1, wish.place, "`draft` and `fine` are opposites; want one of them");
      }
      quality_wish_ = wish.word;
    } else if (wish.word == "under") {
      under_ = wish.limit;
      under_place_ = wish.place;
    } else {
      (wish.word == "exact" ? plan.exact : plan.approx) = true;
      if (plan.exact && plan.approx) {
        problem(
            Check::D1, wish.place,
            "`exact` promises the same bits every time and `approx` allows other ones; want one "
            "of them");
      }
    }
  }
}

bool Builder::free_name(const std::string& name, Place place) {
  if (const auto taken = names_.find(name); taken != names_.end()) {
    problem(Check::N3, place,
            fmt::format("`{}` is bound already, on line {}; a name is bound once", name,
                        taken->second.place.line));
    return false;
  }
  if (catalogue_.find(name) != nullptr) {
    problem(Check::N3, place,
            fmt::format("`{}` is the name of a model; choose another name", name));
    return false;
  }
  return true;
}

void Builder::bind(const Bind& bind) {
  binding_ = bind.name;
  const std::uint32_t node = flow(bind.flow);
  binding_.clear();
  if (bind.type) annotate(*bind.type, node);
  if (!free_name(bind.name, bind.place)) return;
  names_[bind.name] = {node, bind.place, false};
  std::string& name = planned_.plan.nodes[node].name;
  if (name.empty()) name = bind.name;
}

void Builder::input(const In& in) {
  Node node{.op = "input", .name = in.name, .place = in.place};
  node.type.kind = kind_of(in.type.kind);
  node.type.list = in.type.lists > 0;
  node.type.given = true;
  if (in.type.size) node.type.size = *in.type.size;
  node.at_run = {{"name", in.name}};
  const auto fact = std::ranges::find(catalogue_.inputs, in.name, &InputFact::name);
  if (fact != catalogue_.inputs.end()) {
    node.at_run.emplace_back("digest", fact->digest);
    node.type.count = fact->count;
    if (fact->size) node.type.size = *fact->size;
  } else if (in.initial) {
    node.at_run.emplace_back("initial", print(*in.initial));
    if (in.initial->kind == Value::Kind::List) {
      node.type.count = static_cast<std::uint32_t>(in.initial->items.size());
    }
  }
  const Type::Kind kind = node.type.kind;
  const bool possible =
      kind == Type::Kind::Text || kind == Type::Kind::Pixels || kind == Type::Kind::Json;
  if (!possible) {
    problem(Check::T1, in.type.place,
            fmt::format(
                "an input is Text, Pixels, Json or a list of one of them, not {}{}", in.type.kind,
                kind == Type::Kind::Latent ? "; a latent is named by its handle, `lat:ID`" : ""));
    node.type = {};
  } else if (in.initial && (kind == Type::Kind::Pixels ||
                            (in.initial->kind == Value::Kind::List) != node.type.list)) {
    problem(Check::T1, in.initial->place,
            fmt::format("the default of `{}` is no {}", in.name, node.type.text()));
  }
  if (in.initial && inserts(*in.initial)) {
    problem(Check::T1, in.initial->place,
            "a default inserts no other input; write `{{` for a brace of its own");
  }
  if (!free_name(in.name, in.place)) return;
  names_[in.name] = {add(std::move(node)), in.place, true};
}

void Builder::use(const Use& use) {
  Default made{.model = catalogue_.find(use.model), .use = &use};
  if (use.model == "auto") {
    defaults_[static_cast<std::size_t>(ModelKind::Image)] = made;
    return;
  }
  if (made.model == nullptr) {
    std::vector<std::string_view> names{"auto"};
    for (const Model& model : catalogue_.models) names.emplace_back(model.name);
    problem(Check::N1, use.place,
            fmt::format("there is no model `{}`{}", use.model, hint(use.model, names)));
    return;
  }
  const Model& model = *made.model;
  if (!use.dtype.empty() && std::ranges::find(model.dtypes, use.dtype) == model.dtypes.end()) {
    problem(Check::P1, use.dtype_place,
            fmt::format("{} cannot be used as {}; it can as {}", model.name, use.dtype,
                        one_of({model.dtypes.begin(), model.dtypes.end()})));
  }
  if ((use.at || use.fit) && model.kind != ModelKind::Image) {
    problem(Check::S1, use.at_place,
            fmt::format("{} makes no pictures, so it has no size", model.name));
  }
  if (use.at) {
    const auto nearest = [&](std::uint32_t n) {
      return std::max(n / model.multiple * model.multiple, model.multiple);
    };
    const Size size = *use.at;
    if (size.width > limits_.side || size.height > limits_.side) {
      problem(
          Check::L2, use.at_place,
          fmt::format("{} is too large: a side has at most {} pixels", size.text(), limits_.side));
    } else if (const Size good{nearest(size.width), nearest(size.height)}; good != size) {
      problem(Check::S1, use.at_place,
              fmt::format("{} does not suit {}, whose sides are multiples of {}.\nThe nearest that "
                          "fits inside is {}.",
                          size.text(), model.name, model.multiple, good.text()));
    }
  }
  if (use.fit && (*use.fit < model.multiple || *use.fit > limits_.side)) {
    problem(
        Check::L2, use.at_place,
        fmt::format("fit {}: a side has {} to {} pixels", *use.fit, model.multiple, limits_.side));
  }
  if (use.fit && !all_names_.contains(use.fit_name)) {
    std::vector<std::string_view> names;
    for (const auto& [name, place] : all_names_) names.emplace_back(name);
    problem(
        Check::N1, use.at_place,
        fmt::format("there is no input `{}` to fit{}", use.fit_name, hint(use.fit_name, names)));
  }
  defaults_[static_cast<std::size_t>(model.kind)] = made;
  Default& embedding = defaults_[static_cast<std::size_t>(ModelKind::Embed)];
  const bool free = embedding.model == nullptr || embedding.model->kind != ModelKind::Embed;
  if (model.does(ModelKind::Embed) && free) embedding = made;
}

std::uint32_t Builder::flow(const Flow& flow) {
  std::optional<Operand> piped;
  if (flow.source) piped = value(*flow.source);
  for (const Stage& stage : flow.stages) {
    const std::uint32_t node = this->stage(stage, std::move(piped));
    piped = Operand{.node = node, .place = stage.place, .said = {}};
  }
  return piped->node;
}

std::uint32_t Builder::stage(const Stage& stage, std::optional<Operand> piped) {
  const StageSpec& spec = *find_stage(stage.name);
  // What does not fit is said at the stage that it is piped into.
  if (piped) piped->place = stage.place;
  const auto call = this->call(stage, spec, std::move(piped));
  Node node;
  const auto unknown = [this](const Operand& o) { return type_of(o).kind == Type::Kind::Unknown; };
  if (call && std::ranges::none_of(call->operands, unknown)) {
    const std::string_view name = spec.name;
    if (name == "latent" && call->operands.size() == 1 &&
        type_of(call->operands[0]).kind == Type::Kind::Latent) {
      const Model* model = model_of(*call);
      if (model == nullptr || !check_space(call->operands[0], *model)) return add(std::move(node));
      // A decode and an encode that nothing stands between.
      planned_.plan.nodes[call->operands[0].node].notes.push_back(
          {Check::B1, fmt::format("`latent` on line {} has nothing to do", stage.place.line)});
      return call->operands[0].node;
    }
    node = name == "encode"   ? encode(*call)
           : name == "sample" ? sample(*call)
           : name == "resize" ? resize(*call)
           : name == "latent" ? latent(*call)
           : name == "pixels" ? pixels(*call)
           : name == "blend"  ? blend(*call)
           : name == "walk"   ? walk(*call)
           : name == "ask"    ? ask(*call)
           : name == "embed"  ? embed(*call)
                              : chunk(*call);
  }
  node.place = stage.place;
  if (node.type.count > limits_.elements) {
    problem(Check::L2, stage.place,
            fmt::format("`{}` makes {} values; at most {}", spec.name, node.type.count,
                        limits_.elements));
    node.type = {};
  }
  return add(std::move(node));
}

std::uint32_t Builder::add(Node node) {
  Plan& plan = planned_.plan;
  const auto index = static_cast<std::uint32_t>(plan.nodes.size());
  for (const std::uint32_t input : node.inputs) node.pure = node.pure && input < index;
  if (node.pure && node.type.kind != Type::Kind::Unknown && node.op != "out" && node.op != "keep") {
    std::string what =
        fmt::format("{}|{}|{}|{}", node.op, node.model, node.dtype, fmt::join(node.inputs, ","));
    for (const Pairs* pairs : {&node.fixed, &node.at_run}) {
      for (const auto& [key, text] : *pairs)
        what += fmt::format("|{}={}:{}", key, text.size(), text);
    }
    const auto [found, fresh] = pure_.emplace(std::move(what), index);
    if (!fresh) {
      Node& same = plan.nodes[found->second];
      if (node.op != "text" && node.op != "list" && node.op != "lat") {
        same.notes.push_back({Check::C1, fmt::format("also line {}", node.place.line)});
      }
      return found->second;
    }
  }
  plan.nodes.push_back(std::move(node));
  return index;
}

}  // namespace lares::sketch
