// An engine with a cost table instead of a device: what the scheduler is proved against, and what
// the server can be loaded with where there is no model (`--engine sim`).
//
// It keeps the contract of engine.h exactly: sequences, shared prefixes, the KV pool's capacity,
// ends of generation, save and restore. The next token is a hash of the sequence's own tokens (and,
// where the temperature is above 0, of seed and choice), so a text depends on nothing else: not on
// its neighbours, on chunking, on a pause or on a crash. Penalties and biases change nothing.
//
// Time is told, not spent: run() returns at once and reports in Ran::device what the table says,
// unless SimOptions::time is Spent. Threads: as engine.h says (load beside the rest); `memory` from
// any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/sim_pool.h"

namespace lares::engine {

// Time of a part of a step that processes `tokens` tokens.
struct CostPoint {
  std::uint32_t tokens = 0;
  Duration time{};
};

// Straight lines between the points, from (0, 0) on; beyond the last point its last line goes on.
Duration cost_at(std::span<const CostPoint> points, std::uint32_t tokens);

// Time of a step = fixed + decodes + prompt + attended * attended KV tokens. The defaults are the
// two tables of docs/ARCHITECTURE.md for the 0.1B model on two zen5 cores: a step with one decode
// takes 6.3 ms, with sixteen 24.5 ms; a prompt chunk of 512 beside four decodes adds 396 ms. Both
// were measured with short contexts and leave the part of attention open; 20 ns a token of KV is an
// assumption.
struct SimCost {
  Duration fixed = std::chrono::microseconds(500);
  std::vector<CostPoint> decode{
      {1, std::chrono::microseconds(5800)},   {2, std::chrono::microseconds(11400)},
      {4, std::chrono::microseconds(16500)},  {8, std::chrono::microseconds(22400)},
      {16, std::chrono::microseconds(24000)}, {64, std::chrono::microseconds(60000)}};
  std::vector<CostPoint> prompt{
      {8, std::chrono::milliseconds(10)},   {16, std::chrono::milliseconds(13)},
      {32, std::chrono::milliseconds(24)},  {64, std::chrono::milliseconds(46)},
      {128, std::chrono::milliseconds(89)}, {256, std::chrono::milliseconds(167)},
      {512, std::chrono::milliseconds(396)}};
  Duration attended = std::chrono::nanoseconds(20);
  Duration load = std::chrono::milliseconds(300);
};

enum class SimTime : std::uint8_t { Told, Spent };

struct SimOptions {
  SimCost cost;
  SimTime time = SimTime::Told;
  // Every model is this one. Weights and KV are the 0.1B model's.
  std::uint32_t context = 4096;       // Tokens of one sequence, unless LoadSpec says less.
  std::uint32_t pool_tokens = 16384;  // Cells, unless LoadSpec says otherwise.
  Bytes device_memory{std::int64_t{8} << 30U};
  // Tokens as text/byte_text.h has them: 3 specials, then 256 bytes. Generated ones are printable
  // ASCII, so that a text is well-formed UTF-8.
  std::uint32_t vocabulary = 259;
  std::int32_t end_token = 0;
  // One sampled token in this many ends the generation; 0 = none does.
  std::uint32_t end_one_in = 200;
  bool cut_anywhere = true;  // As Capabilities: false refuses `from` that is not a whole sequence.
};

// What a model of these options says of itself; the same for every file.
ModelInfo sim_model_info(const SimOptions& options);

class SimEngine : public Engine {
 public:
  explicit SimEngine(SimOptions options);
  ~SimEngine() override;

  Result<Loaded> load(const LoadSpec& spec) override;
  Result<> unload(ModelId model) override;
  Result<> open(const Open& open) override;
  // Errors: NotFound (model), Invalid (an item that cannot be), TooLarge (batch, outputs), Busy
  // (pool).
  Result<Ran> run(const Run& run) override;
  Result<Saved> save(const Save& save) override;
  Result<> restore(const Restore& restore) override;
  void forget(ModelId model, StateId state) override;
  void drop(ModelId model, SeqId seq) override;
  Result<> lease(const Lease& lease) override;
  Result<> release(std::uint64_t handle) override;
  MemoryReport memory() const override;

  // Asserts that the cells in use are those that sequences hold.
  void check() const;

 private:
  struct Sequence;
  struct Model;
  struct Plan;

  Result<Model*> find(ModelId model);
  Result<Plan> plan(Model& model, const Run& run) const;
  ItemResult advance(Model& model, const RunItem& item) const;
  void sample(const Sequence& sequence, ItemResult& result) const;
  static void embed(const Sequence& sequence, ItemResult& result);

  const SimOptions options_;
  mutable std::mutex mutex_;  // Of what is below; never held while time is spent.
  std::map<ModelId, std::unique_ptr<Model>> models_;
};

}  // namespace lares::engine
