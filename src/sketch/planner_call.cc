// Arguments of a stage sorted out, and the model that it runs on.
#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"
#include "sketch/builder.h"
#include "sketch/printer.h"

namespace lares::sketch {
namespace {

constexpr std::array<std::string_view, kModelKinds> kKindNames{"an image model", "a chat model",
                                                               "an embedding model"};

bool has(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

const Value* Call::key(std::string_view name) const {
  const auto found = keys.find(name);
  return found == keys.end() ? nullptr : &found->second->value;
}

Place Call::key_place(std::string_view name) const {
  const auto found = keys.find(name);
  return found == keys.end() ? stage->place : found->second->place;
}

// Words in this order: a choice, a bound name, a model. Keys were the parser's. False after a
// problem.
bool Builder::named_argument(Call& call, const Argument& argument) {
  const std::string& word = argument.value.text;
  if (has(call.spec->choices, word)) {
    if (!call.choice.empty()) {
      problem(Check::L1, argument.place,
              fmt::format("two {}s, {} and {}", call.spec->choice_name, call.choice, word));
      return false;
    }
    call.choice = word;
    return true;
  }
  if (call.spec->has_model && !names_.contains(word)) {
    if (catalogue_.find(word) != nullptr) {
      call.model = model_named(word, argument.place, call.spec->model);
      return call.model != nullptr;
    }
  }
  if (!names_.contains(word) && !all_names_.contains(word) && catalogue_.find(word) == nullptr) {
    std::vector<std::string_view> words = names_of(call.spec->keys);
    words.insert(words.end(), call.spec->choices.begin(), call.spec->choices.end());
    for (const auto& [name, known] : names_) words.emplace_back(name);
    if (call.spec->has_model) {
      for (const Model& model : catalogue_.models) words.emplace_back(model.name);
    }
    problem(Check::N1, argument.place,
            fmt::format("nothing is called `{}` here{}", word, hint(word, words)));
    return false;
  }
  call.operands.push_back(this->word(argument.value));
  return true;
}

std::optional<Call> Builder::call(const Stage& stage, const StageSpec& spec,
                                  std::optional<Operand> piped) {
  Call call;
  call.stage = &stage;
  call.spec = &spec;
  bool good = true;
  if (spec.later) {
    problem(Check::T1, stage.place, fmt::format("`{}` is not there yet", spec.name));
    return std::nullopt;
  }
  if (piped) {
    if (piped->said.empty()) piped->said = "what comes through `|`";
    call.operands.push_back(std::move(*piped));
  }
  for (const Argument& argument : stage.arguments) {
    const Value& value = argument.value;
    if (!argument.key.empty()) {
      call.keys.emplace(argument.key, &argument);
      if (argument.key == "model") {
        call.model = model_named(value.text, value.place, spec.model);
        good = good && call.model != nullptr;
      }
    } else if (value.kind == Value::Kind::Number || value.kind == Value::Kind::Size) {
      call.number = value;
    } else if (value.kind == Value::Kind::Word) {
      good = named_argument(call, argument) && good;
    } else {
      call.operands.push_back(this->value(value));
    }
  }
  if (!good) return std::nullopt;
  return call;
}

const Model* Builder::model_named(const std::string& name, Place place, ModelKind kind) {
  const Model* model = catalogue_.find(name);
  if (model == nullptr) {
    std::vector<std::string_view> names;
    for (const Model& known : catalogue_.models) names.emplace_back(known.name);
    problem(Check::N1, place, fmt::format("there is no model `{}`{}", name, hint(name, names)));
    return nullptr;
  }
  if (model->does(kind)) return model;
  problem(Check::T1, place,
          fmt::format("{} is {}, and this needs {}", name,
                      kKindNames.at(static_cast<std::size_t>(model->kind)),
                      kKindNames.at(static_cast<std::size_t>(kind))));
  return nullptr;
}

const Model* Builder::model_of(const Call& call) {
  if (call.model != nullptr) return call.model;
  const auto kind =
      static_cast<std::size_t>(call.spec->name == "sample" ? ModelKind::Image : call.spec->model);
  if (defaults_[kind].model != nullptr) return defaults_[kind].model;
  if (!chosen_[kind].empty()) return catalogue_.find(chosen_[kind]);
  const Model* first = nullptr;
  for (const Model& model : catalogue_.models) {
    if (!model.does(static_cast<ModelKind>(kind))) continue;
    open_[kind] = true;
    if (first == nullptr) first = &model;
  }
  if (first == nullptr) {
    problem(Check::N1, call.stage->place,
            fmt::format("`{}` needs {}, and there is none", call.spec->name, kKindNames.at(kind)));
  }
  return first;
}

const Use* Builder::use_of(const Model& model) const {
  const Default& made = defaults_.at(static_cast<std::size_t>(model.kind));
  return made.use != nullptr && (made.model == nullptr || made.model == &model) ? made.use
                                                                                : nullptr;
}

bool Builder::wants(const Operand& operand, Type::Kind kind, std::string_view stage) {
  const Type& type = type_of(operand);
  if (type.kind == kind) return true;
  using Kind = Type::Kind;
  std::string way;
  if (type.kind == Kind::Pixels && kind == Kind::Latent) way = "Go through `| latent`.";
  if (type.kind == Kind::Pixels && kind == Kind::Cond) {
    way = "Go through `| latent`, then `sample` it with some conditioning.";
  }
  if (type.kind == Kind::Text && kind == Kind::Cond) way = "Go through `| encode`.";
  if (type.kind == Kind::Text && kind == Kind::Latent) way = "Go through `| encode | sample`.";
  if (type.kind == Kind::Latent && kind == Kind::Pixels) way = "Go through `| pixels`.";
  if (type.kind == Kind::Cond && kind == Kind::Latent) way = "Go through `| sample`.";
  problem(Check::T1, operand.place,
          fmt::format("{} is {}; `{}` wants {}.{}{}", operand.said, type.text(), stage,
                      kind == Kind::Latent ? "a Latent" : kind_text(kind), way.empty() ? "" : "\n",
                      way));
  return false;
}

bool Builder::single(const Operand& operand, std::string_view key) {
  if (!type_of(operand).list) return true;
  problem(Check::T1, operand.place,
          fmt::format("{} is {}; `{}` takes one", operand.said, type_of(operand).text(), key));
  return false;
}

bool Builder::operands(const Call& call, std::size_t least, std::size_t most,
                       std::string_view what) {
  const std::size_t n = call.operands.size();
  if (n >= least && n <= most) return true;
  problem(Check::T1, n > most ? call.operands[most].place : call.stage->place,
          fmt::format("`{}` takes {}; here {}", call.spec->name, what,
                      n == 0   ? std::string("is nothing")
                      : n == 1 ? std::string("is one value")
                               : fmt::format("are {} values", n)));
  return false;
}

bool Builder::lift(const Call& call, Type& type) {
  std::uint32_t count = 1;
  const Operand* list = nullptr;
  for (const Operand& operand : call.operands) {
    const Type& given = type_of(operand);
    if (!given.list) continue;
    if (list != nullptr && given.count != 0 && count != 0 && given.count != count) {
      problem(Check::T1, operand.place,
              fmt::format("{} has {} elements and {} has {}; lists go together element by element",
                          operand.said, given.count, list->said, count));
      return false;
    }
    list = &operand;
    count = given.count;
  }
  if (list == nullptr) return true;
  type.list = true;
  type.count = count;
  return true;
}

void Builder::cast(Node& node, const Operand& operand, const std::string& dtype) {
  const std::string& from = type_of(operand).dtype;
  // Quantised weights compute in f16.
  if (from.empty() || from == dtype || dtype == "q8_0") return;
  node.notes.push_back({Check::P1, fmt::format("{}: {} -> {}", operand.said, from, dtype)});
}

}  // namespace lares::sketch
