// Values: names, texts, handles, lists; and what is put out or kept.
#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"
#include "sketch/builder.h"
#include "sketch/printer.h"

namespace lares::sketch {
namespace {

using Kind = Type::Kind;

bool same_noise(const TypeNote& note, const Type& type) {
  if (note.clean) return !type.noise;
  return !note.at ||
         (type.noise && type.noise->done == note.at->width && type.noise->steps == note.at->height);
}

std::string model_key(const Argument* argument) {
  return argument == nullptr ? std::string() : print(argument->value);
}

}  // namespace

const Type& Builder::type_of(const Operand& operand) const {
  return planned_.plan.nodes[operand.node].type;
}

Operand Builder::value(const Value& value) {
  switch (value.kind) {
    case Value::Kind::Word: return word(value);
    case Value::Kind::Text: return {text(value), value.place, "this text"};
    case Value::Kind::Handle: return {handle(value), value.place, "lat:" + value.text};
    case Value::Kind::Flow: return {flow(value.flow.front()), value.place, "this"};
    case Value::Kind::List: return {list(value), value.place, "this list"};
    default: break;
  }
  problem(Check::T1, value.place, fmt::format("`{}` is no value of a flow", print(value)));
  return {add({}), value.place, ""};
}

std::string Builder::unknown_word(const std::string& name) const {
  std::vector<std::string_view> words = names_of(stages());
  for (const auto& [known, where] : names_) words.emplace_back(known);
  for (const Model& model : catalogue_.models) words.emplace_back(model.name);
  return fmt::format("nothing is called `{}`{}", name, hint(name, words));
}

Operand Builder::word(const Value& value) {
  const std::string& name = value.text;
  if (const auto known = names_.find(name); known != names_.end()) {
    return {known->second.node, value.place, name};
  }
  if (name == binding_) {
    problem(Check::N2, value.place, fmt::format("`{}` cannot be made of itself", name));
  } else if (const auto below = all_names_.find(name); below != all_names_.end()) {
    problem(
        Check::N2, value.place,
        fmt::format("`{}` is bound only on line {}; move that line up", name, below->second.line));
  } else if (catalogue_.find(name) != nullptr) {
    problem(Check::N1, value.place, fmt::format("`{}` is a model, not a value", name));
  } else {
    problem(Check::N1, value.place, unknown_word(name));
  }
  return {add({}), value.place, name};
}

std::uint32_t Builder::text(const Value& value) {
  Node node{.op = "text", .place = value.place};
  node.type.kind = Kind::Text;
  node.at_run = {{"text", value.text}};
  // The parser let no other braces through.
  for (const Piece& piece : pieces_of(value.text).value_or(std::vector<Piece>{})) {
    if (!piece.insert) continue;
    const auto known = names_.find(piece.text);
    if (known == names_.end()) {
      problem(
          all_names_.contains(piece.text) ? Check::N2 : Check::N1, value.place,
          fmt::format("`{{{}}}` names no input above; write `in {} : Text` before it, or `{{{{` "
                      "for a brace",
                      piece.text, piece.text));
      continue;
    }
    const Type& type = planned_.plan.nodes[known->second.node].type;
    if (!known->second.input || !type.is(Kind::Text) || type.list) {
      problem(Check::T1, value.place,
              fmt::format("`{{{}}}` must be an input that is a Text; it is {}{}", piece.text,
                          known->second.input ? "" : "bound here, a ", type.text()));
      continue;
    }
    node.inputs.push_back(known->second.node);
  }
  return add(std::move(node));
}

// The image model that is used, if it has that space; else any that has it.
std::string Builder::model_with(const Space& space) const {
  const auto has = [&](const Model& model) {
    return model.kind == ModelKind::Image && model.space.digest() == space.digest();
  };
  const Model* used = defaults_[static_cast<std::size_t>(ModelKind::Image)].model;
  if (used != nullptr && has(*used)) return used->name;
  const auto any = std::ranges::find_if(catalogue_.models, has);
  return any == catalogue_.models.end() ? std::string() : any->name;
}

std::uint32_t Builder::handle(const Value& value) {
  Node node{.op = "lat", .place = value.place};
  const auto kept = std::ranges::find(catalogue_.kept, value.text, &Kept::id);
  if (kept == catalogue_.kept.end()) {
    std::vector<std::string_view> ids;
    for (const Kept& k : catalogue_.kept) ids.emplace_back(k.id);
    problem(Check::N1, value.place,
            fmt::format("no latent `lat:{}` is kept{}", value.text, hint(value.text, ids)));
  } else if (kept->expired) {
    problem(Check::N1, value.place,
            fmt::format("`lat:{}` was kept and has expired; run the sketch that made it again",
                        value.text));
  } else {
    node.type = {.kind = Kind::Latent,
                 .name = space_name(kept->space),
                 .size = kept->cells,
                 .dtype = kept->dtype,
                 .noise = kept->noise,
                 .space = kept->space,
                 .model = model_with(kept->space)};
    node.at_run = {{"id", kept->id}};
    node.dtype = kept->dtype;
  }
  return add(std::move(node));
}

std::uint32_t Builder::list(const Value& value) {
  Node node{.op = "list", .place = value.place};
  std::optional<Type> first;
  for (const Value& item : value.items) {
    const Operand element = this->value(item);
    node.inputs.push_back(element.node);
    const Type& type = type_of(element);
    if (type.kind == Kind::Unknown) return add({});
    if (type.list) {
      problem(Check::T1, element.place, "there are no lists of lists");
      return add({});
    }
    if (first && first->text() != type.text()) {
      problem(
          Check::T1, element.place,
          fmt::format("a list is of one type; this is {} beside {}", type.text(), first->text()));
      return add({});
    }
    if (!first) first = type;
  }
  node.type = *first;
  node.type.list = true;
  node.type.count = static_cast<std::uint32_t>(value.items.size());
  return add(std::move(node));
}

void Builder::annotate(const TypeNote& note, std::uint32_t index) {
  const Type& type = planned_.plan.nodes[index].type;
  if (type.kind == Kind::Unknown) return;
  const auto no = [&](Check check) {
    problem(check, note.place, fmt::format("this is {}, not {}", type.text(), print(note)));
  };
  if (kind_of(note.kind) != type.kind || (note.lists > 0) != type.list) return no(Check::T1);
  if (!note.what.empty() && note.what != type.name) {
    return no(type.kind == Kind::Latent ? Check::T2 : Check::T1);
  }
  if (note.size && *note.size != type.size) return no(Check::S1);
  if (note.count && *note.count != type.width) return no(Check::S1);
  if (!note.dtype.empty() && note.dtype != type.dtype) return no(Check::P1);
  if (!same_noise(note, type)) return no(Check::T3);
}

void Builder::keep(const Keep& keep) {
  const Operand kept = word(Value::word(keep.name, keep.place));
  const Type& type = type_of(kept);
  if (!type.is(Kind::Latent) && !type.is(Kind::Cond) && !type.is(Kind::Embedding)) {
    problem(Check::T1, keep.place,
            fmt::format("{} is {}; `keep` takes latents, conditioning and embeddings.\nPut it out, "
                        "or keep what it was made from.",
                        keep.name, type.text()));
    return;
  }
  Node node{.op = "keep", .place = keep.place, .type = type, .inputs = {kept.node}};
  node.at_run = {{"for", keep.duration.text()}};
  add(std::move(node));
}

void Builder::out(const Out& out) {
  const MediumSpec& medium = *find_medium(out.medium);
  std::optional<Operand> made;
  if (out.flow.stages.empty()) {
    made = value(*out.flow.source);
  } else {
    made = Operand{.node = flow(out.flow), .place = out.place, .said = {}};
  }
  Type type = type_of(*made);
  if (type.kind == Kind::Unknown) return;
  if (medium.later) {
    return problem(Check::T1, out.place,
                   fmt::format("`{}` is for sound, which is not there yet", out.medium));
  }
  const bool picture = type.kind == Kind::Pixels || type.kind == Kind::Latent;
  const bool good = medium.picture        ? picture
                    : out.medium == "npy" ? type.kind == Kind::Embedding || type.kind == Kind::Cond
                    : out.medium == "txt" ? type.kind == Kind::Text
                                          : type.kind != Kind::Cond && !picture;
  if (!good) {
    return problem(Check::T1, out.place,
                   fmt::format("{} does not go into {}; {}", type.text(), out.medium,
                               picture                        ? "write png, webp or jpeg"
                               : type.kind == Kind::Text      ? "write txt or json"
                               : type.kind == Kind::Cond      ? "`sample` it first, or `keep` it"
                               : type.kind == Kind::Embedding ? "write npy or json"
                                                              : "write json"));
  }
  for (const Argument& argument : out.arguments) {
    const std::int64_t n = argument.value.number.value.units;
    if (argument.key == "q" && (n < 1 || n > 100)) {
      problem(Check::L1, argument.value.place, "a quality is a number from 1 to 100");
    }
    if (argument.key == "fps" && n == 0) {
      problem(Check::L1, argument.value.place, "no pictures a second never end");
    } else if (argument.key == "fps" && !type.list) {
      problem(Check::T1, argument.place,
              fmt::format("`fps` plays a list of pictures; this is one {}", kind_text(type.kind)));
    }
  }
  if (type.kind == Kind::Latent) {
    const Stage stage{.name = "pixels", .place = out.place, .arguments = {}};
    if (type.noise) {
      return problem(Check::T3, out.place,
                     fmt::format("this is {}: still noisy.\nLet it be finished first: `| sample "
                                 "c` runs the {} steps that are left.",
                                 type.text(), type.noise->steps - type.noise->done));
    }
    const std::size_t before = planned_.plan.nodes.size();
    made->node = this->stage(stage, made);
    // There is no way back from here, and so no price of one.
    if (made->node >= before) planned_.plan.nodes[made->node].notes.clear();
    type = planned_.plan.nodes[made->node].type;
  }
  Node node{.op = "out", .place = out.place, .type = type, .inputs = {made->node}};
  node.at_run = {{"medium", out.medium}};
  for (const Argument& argument : out.arguments) {
    node.at_run.emplace_back(argument.key, model_key(&argument));
  }
  add(std::move(node));
}

}  // namespace lares::sketch
