// Batch keys, value keys and the plan's key.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sketch/builder.h"

namespace lares::sketch {
namespace {

using Words = std::string_view;

// What is kept for the next time. Not pictures: their latents are smaller, and decode quickly.
constexpr std::array<Words, 8> kCached{"encode", "sample", "resize", "latent",
                                       "blend",  "walk",   "embed",  "ask"};
// What runs on a device in batches.
constexpr std::array<Words, 6> kBatched{"encode", "sample", "latent", "decode", "ask", "embed"};
// What does not change the value.
constexpr std::array<Words, 3> kShown{"preview", "every", "name"};

template <std::size_t N>
bool has(const std::array<Words, N>& words, Words word) {
  return std::ranges::find(words, word) != words.end();
}

// Each part with its length, so that no two nodes read alike.
void append_part(std::string& out, Words part) {
  out += fmt::format("{}:{};", part.size(), part);
}

struct Content {
  std::string key;  // "" = not known before it runs, for the reason:
  std::string no_key;
};

class Keys {
 public:
  Keys(Plan& plan, const Catalogue& catalogue) : plan_(plan), catalogue_(catalogue) {}

  void run() {
    std::string fixed = catalogue_.engine + '\n' + catalogue_.device + '\n';
    contents_.reserve(plan_.nodes.size());
    for (Node& node : plan_.nodes) {
      append_part(fixed, static_part(node));
      for (const std::uint32_t input : node.inputs) append_part(fixed, fmt::format("{}", input));
      node.batch_key = batch_key(node);
      contents_.push_back(content(node, {}));
      const Content& own = contents_.back();
      if (node.op == "sample") {
        node.trajectory_key = content(node, "until").key;
        if (const auto at = catalogue_.checkpoints.find(node.trajectory_key);
            at != catalogue_.checkpoints.end() && !node.trajectory_key.empty()) {
          node.resumes_at = at->second;
        }
      }
      if (!has(kCached, node.op)) continue;
      node.value_key = own.key;
      node.no_key = own.no_key;
      node.cached = !own.key.empty() && catalogue_.cached.contains(own.key);
      if (!own.key.empty() && !node.cached && catalogue_.queued.contains(own.key)) {
        node.notes.push_back({Check::C1, "another job of yours computes it"});
      }
    }
    plan_.key = digest_of(fixed);
  }

 private:
  std::string static_part(const Node& node) const {
    const Model* model = catalogue_.find(node.model);
    std::string out;
    for (const std::string& part :
         {node.op, model == nullptr ? std::string() : model->digest + '/' + model->name, node.dtype,
          node.op == "sample" ? node.type.size.text() : std::string()}) {
      append_part(out, part);
    }
    for (const auto& [key, text] : node.fixed) {
      append_part(out, key);
      append_part(out, text);
    }
    return out;
  }

  // In cells; a picture that is not there yet has none.
  static std::string shape(Size cells) {
    return cells.width == 0 ? " shape at run time" : ' ' + cells.text();
  }

  std::string batch_key(const Node& node) const {
    if (!has(kBatched, node.op) || plan_.exact) return "";
    std::string out = fmt::format("{} {} {}", node.op, node.model, node.dtype);
    if (node.op == "sample" || node.op == "latent") {
      out += shape(node.type.size);
    } else if (node.op == "decode") {
      out += shape(plan_.nodes[node.inputs.front()].type.size);
    }
    if (node.op != "sample") return out;
    for (const auto& [key, text] : node.fixed) {
      if (key == "cfg") {
        out += text == "on" ? " cfg" : "";
      } else {
        out += key == "steps" ? fmt::format(" steps {}", text) : ' ' + text;
      }
    }
    return out;
  }

  // The node's content; `but` is an argument that is left out.
  Content content(const Node& node, Words but) const {
    std::string out = catalogue_.scope + '\n' + catalogue_.engine + '\n';
    append_part(out, static_part(node));
    bool known = node.op != "input";
    for (const auto& [key, text] : node.at_run) {
      known = known || key == "digest" || key == "initial";
      if (has(kShown, key) || key == but) continue;
      append_part(out, key);
      append_part(out, text);
    }
    if (!known) return {"", fmt::format("`{}` is given at run time", node.name)};
    if (!node.pure) return {"", "no seed"};
    for (const std::uint32_t input : node.inputs) {
      const Content& from = contents_[input];
      if (from.key.empty()) return {"", from.no_key};
      append_part(out, from.key);
    }
    return {digest_of(out), ""};
  }

  Plan& plan_;
  const Catalogue& catalogue_;
  std::vector<Content> contents_;
};

}  // namespace

void give_keys(Plan& plan, const Catalogue& catalogue) {
  Keys(plan, catalogue).run();
}

}  // namespace lares::sketch
