// Carries out the plan of a sketch: a state machine from typed nodes to pieces of work.
//
// Each element of each node is a unit. What is put out says which units are needed; those whose
// value is cached are done, the others begin as soon as what they are made of is done, and what
// nobody needs any more is let go at once. Lists go element by element. Effects go through a host,
// so that it runs in tests without a server. Owned by one thread; knows no time.
//
// When a device is lost with everything that was beside it, restart() begins again with what is
// still to be put out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/sketch_values.h"

namespace lares::server {

// One piece of work for a device. `passes` 0: done when it is prepared.
struct SketchWork {
  std::uint32_t unit = 0;
  std::string model{};
  engine::Handle handle{};
  engine::PictureWork work{};
  std::uint32_t passes = 0;
  std::string batch_key{};  // "" = alone.
};

// A text that is to be written.
struct SketchAsk {
  std::uint32_t unit = 0;
  std::string model{}, text{}, system{}, schema{};
  std::optional<std::uint32_t> max{};
  std::optional<double> temperature{};
  std::uint64_t seed = 0;
};
// Texts that are to become vectors, together.
struct SketchEmbed {
  std::string model{};
  std::vector<std::uint32_t> units{};
  std::vector<std::string> texts{};
};

class SketchHost {
 public:
  virtual ~SketchHost() = default;
  virtual engine::Handle new_handle() = 0;
  virtual std::uint64_t new_seed() = 0;
  virtual void begin(SketchWork work) = 0;
  // The unit needs no more passes.
  virtual void finished(std::uint32_t unit) = 0;
  virtual void fetch(const std::string& model, engine::Handle handle) = 0;  // Pixels.
  virtual void fetch_latent(const std::string& model, engine::Handle handle) = 0;
  virtual void forget(const std::string& model, engine::Handle handle) = 0;
  // What is kept under the key, which stays until it is let go; and whether the handle is kept from
  // now on, in use until it is let go.
  virtual std::optional<engine::Handle> cached(const std::string& model,
                                               const std::string& key) = 0;
  virtual bool keep(const std::string& model, const std::string& key, engine::Handle handle,
                    std::uint32_t passes) = 0;
  virtual void let_go(const std::string& model, const std::string& key) = 0;
  virtual void ask(SketchAsk ask) = 0;
  virtual void embed(SketchEmbed embed) = 0;
  virtual void put(SketchOutput output) = 0;
  virtual void put(SketchKeep keep) = 0;
};

class SketchRun {
 public:
  // The plan has no problems, and cannot_run() (sketch_support.h) said nothing. `scope`: whose the
  // words are. `latents` are those that the plan names.
  SketchRun(std::shared_ptr<const sketch::Plan> plan, std::vector<SketchInput> inputs,
            std::string scope, SketchHost& host, KeptLatents latents = {});

  void start();
  // The unit's handle has done so many passes in all, with those that it went on from.
  void on_pass(std::uint32_t unit, std::uint32_t passes_done);
  void on_fetched(engine::Handle handle, engine::Picture picture);
  void on_text(std::uint32_t unit, std::string text);
  void on_vector(std::uint32_t unit, std::vector<float> vector);
  void on_latent(engine::Handle handle, engine::LatentCopy latent);
  // Everything beside the devices is gone, or that of one model; nothing is forgotten there.
  void restart();
  // Lets everything go; nothing else may be called afterwards.
  void end();

  [[nodiscard]] bool done() const { return left_ == 0; }
  [[nodiscard]] engine::Handle handle_of(std::uint32_t unit) const { return units_[unit].handle; }
  [[nodiscard]] const sketch::Node& node_of(std::uint32_t unit) const;
  // Passes of all needed units, and of those that were done.
  [[nodiscard]] std::uint32_t passes() const { return passes_; }
  [[nodiscard]] std::uint32_t passes_done() const { return passes_done_; }
  [[nodiscard]] const SketchCounts& counts() const { return counts_; }

 private:
  struct Unit {
    enum class At : std::uint8_t { Waiting, Begun, Done };
    std::uint32_t node = 0, element = 0;
    std::vector<std::uint32_t> inputs{};
    std::string text{};
    std::vector<float> vector{};
    std::shared_ptr<const engine::Picture> picture{};
    std::shared_ptr<const KeptLatent> latent{};
    std::string key{};
    std::uint32_t passes = 0, passes_done = 0;
    std::uint32_t passes_before = 0;  // Of the sample that it goes on from.
    std::uint32_t index = 0;          // Of an `out` or a `keep`.
    std::uint64_t seed = 0;
    bool put = false;
    // Of what is no device's handle: it was asked for, and it is there. Both outlive a restart.
    bool asked = false, told = false;
    // Since the last start:
    At at = At::Waiting;
    bool needed = false, shared = false;  // shared: its handle is the cache's.
    bool held = false;
    engine::Handle handle{};
    std::uint32_t users = 0;
  };

  void make_units();
  void make_node(std::uint32_t node);
  void make_text(Unit unit, const sketch::Node& node);
  void make_encode(std::uint32_t node);
  std::uint32_t words_unit(std::uint32_t node, const std::string& text);
  std::uint32_t words_of(std::uint32_t node, std::uint32_t text);
  std::uint32_t add(Unit unit);
  [[nodiscard]] std::uint32_t element_of(std::uint32_t node, std::uint32_t element) const;
  [[nodiscard]] std::uint32_t count_of(const sketch::Node& node) const;
  void begin_ready();
  void begin(std::uint32_t unit);
  void begin_out(std::uint32_t unit);
  void begin_ask(std::uint32_t unit);
  bool take_words(std::uint32_t unit);
  [[nodiscard]] std::optional<engine::PictureWork> work_of(const Unit& unit) const;
  [[nodiscard]] engine::SampleLatent sample_of(const Unit& unit) const;
  [[nodiscard]] std::string batch_key_of(const Unit& unit) const;
  void finish(std::uint32_t unit);
  // Of an `out` or a `keep`: it is put.
  void put(std::uint32_t unit);
  // Whose device has the unit's value.
  [[nodiscard]] const std::string& model_of(const Unit& unit) const { return models_[unit.node]; }
  void drop_user(std::uint32_t unit);

  std::shared_ptr<const sketch::Plan> plan_;
  std::vector<SketchInput> inputs_;
  std::string scope_;
  SketchHost& host_;
  const KeptLatents latents_;
  std::vector<std::string> models_;                        // By node: whose device has its value.
  std::vector<Unit> units_;                                // What a unit is made of is before it.
  std::vector<std::vector<std::uint32_t>> values_;         // By node: its elements.
  std::vector<std::vector<std::uint32_t>> negatives_;      // Of encodes: by element.
  std::map<std::string, std::uint32_t> words_;             // By key: words are encoded once.
  std::multimap<engine::Handle, std::uint32_t> fetching_;  // Handle of pixels -> `out`.
  std::map<std::string, SketchEmbed> embeds_;              // By model: to be asked for together.
  std::uint32_t left_ = 0;                                 // Not put out or kept yet.
  std::uint32_t files_ = 0, kept_ = 0, passes_ = 0, passes_done_ = 0;
  SketchCounts counts_;
};

}  // namespace lares::server
