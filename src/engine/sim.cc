#include "engine/sim.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/hash.h"

namespace lares::engine {
namespace {

constexpr std::int32_t kFirstByteToken = 3;  // As text/byte_text.h, which this module cannot see.
constexpr std::uint32_t kFirstPrintable = 32;
constexpr std::uint32_t kPrintable = 95;
constexpr std::uint32_t kEmbedding = 128;                    // Width.
constexpr std::int64_t kKvBytesPerToken = 2 * 2 * 12 * 128;  // F16 K and V, 12 layers of width 128.
constexpr std::int64_t kWeightBytes = std::int64_t{110} << 20U;

std::uint64_t hash_tokens(std::uint64_t hash, std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    hash = hash_combine(hash, static_cast<std::uint32_t>(token));
  }
  return hash;
}

std::uint32_t at_most(std::uint32_t asked, std::uint32_t limit) {
  return asked == 0 ? limit : std::min(asked, limit);
}

}  // namespace

Duration cost_at(std::span<const CostPoint> points, std::uint32_t tokens) {
  if (tokens == 0 || points.empty()) return Duration{0};
  CostPoint low{};
  CostPoint high = points.front();
  for (std::size_t i = 1; i < points.size() && high.tokens < tokens; ++i) {
    low = high;
    high = points[i];
  }
  const std::int64_t run = high.tokens - low.tokens;
  LARES_ASSERT(run > 0, "cost points at {} and {} tokens", low.tokens, high.tokens);
  return low.time + (high.time - low.time) * (std::int64_t{tokens} - low.tokens) / run;
}

// `tokens` are all that are known; the first `cells.size()` of them are computed.
struct SimEngine::Sequence {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint32_t> cells;
  std::uint64_t hash = 0;  // Of all tokens.
  Sampling sampling;
  bool ended = false;
};

struct SimEngine::Model {
  LoadSpec spec;
  std::uint32_t context = 0;
  SimPool pool;
  std::vector<std::optional<Sequence>> sequences;  // By SeqId.
  struct State {
    std::vector<std::int32_t> tokens;  // All up to the end of it.
    std::uint32_t from = 0;
    [[nodiscard]] std::uint32_t held() const {
      return static_cast<std::uint32_t>(tokens.size()) - from;
    }
  };
  std::map<StateId, State> states{};

  Sequence* find(SeqId seq) {
    if (seq.value >= sequences.size() || !sequences[seq.value]) return nullptr;
    return &*sequences[seq.value];
  }
};

// What a run will cost and take, found before anything changes.
struct SimEngine::Plan {
  std::vector<bool> skip;  // By item.
  std::uint32_t decodes = 0;
  std::uint32_t prompt = 0;
  std::int64_t attended = 0;
};

ModelInfo sim_model_info(const SimOptions& options) {
  ModelInfo info;
  info.architecture = "sim";
  info.description = "sim 0.1B, a cost table";
  info.parameters = 100'000'000;
  info.weights = Bytes{kWeightBytes};
  info.kv_per_token = Bytes{kKvBytesPerToken};
  info.context = options.context;
  info.vocabulary = options.vocabulary;
  info.embedding = kEmbedding;
  info.can.cut_anywhere = options.cut_anywhere;
  info.can.has_chat_template = true;
  return info;
}

SimEngine::SimEngine(SimOptions options) : options_(std::move(options)) {
  LARES_ASSERT(options_.vocabulary >= kFirstByteToken + kFirstPrintable + kPrintable,
               "a vocabulary of {}", options_.vocabulary);
}

SimEngine::~SimEngine() = default;

Result<Loaded> SimEngine::load(const LoadSpec& spec) {
  if (spec.sequences == 0 || spec.sequences > 256) {
    return fail(Code::Invalid, fmt::format("{} sequences; 1..256 are possible", spec.sequences));
  }
  if (options_.time == SimTime::Spent) std::this_thread::sleep_for(options_.cost.load);
  const std::uint32_t pool = spec.pool_tokens == 0 ? options_.pool_tokens : spec.pool_tokens;
  const Bytes kv{std::int64_t{pool} * kKvBytesPerToken};
  if (kv + Bytes{kWeightBytes} > options_.device_memory) {
    return fail(Code::TooLarge, fmt::format("a pool of {} tokens takes {} bytes; the device has {}",
                                            pool, kv.count, options_.device_memory.count));
  }
  auto model = std::make_unique<Model>(
      Model{spec, at_most(spec.context, options_.context), SimPool(pool), {}});
  model->sequences.resize(spec.sequences);
  Loaded loaded;
  loaded.model = spec.model;
  loaded.info = sim_model_info(options_);
  loaded.context = model->context;
  loaded.pool_tokens = pool;
  loaded.sequences = spec.sequences;
  loaded.weights = Bytes{kWeightBytes};
  loaded.kv = kv;
  loaded.took = options_.cost.load;
  for (std::uint32_t n = 1; spec.measure_steps && n <= 512; n *= 2) {
    const SimCost& cost = options_.cost;
    if (n <= 64)
      loaded.step_times.push_back({.decodes = n, .time = cost.fixed + cost_at(cost.decode, n)});
    if (n > 1)  // A prompt of one token is a decode.
      loaded.step_times.push_back({.prompt = n, .time = cost.fixed + cost_at(cost.prompt, n)});
  }

  const std::lock_guard lock(mutex_);
  if (!models_.emplace(spec.model, std::move(model)).second) {
    return fail(Code::Conflict, fmt::format("model {} is loaded already", spec.model.value));
  }
  return loaded;
}

Result<SimEngine::Model*> SimEngine::find(ModelId model) {
  const auto found = models_.find(model);
  if (found == models_.end()) {
    return fail(Code::NotFound, fmt::format("model {} is not loaded", model.value));
  }
  return found->second.get();
}

Result<> SimEngine::unload(ModelId model) {
  const std::lock_guard lock(mutex_);
  TRY(find(model));
  models_.erase(model);
  return {};
}

namespace {

Result<> check_tokens(const Open& open, std::uint32_t vocabulary, std::uint32_t context) {
  if (open.tokens.empty()) return fail(Code::Invalid, "a sequence without tokens");
  if (open.tokens.size() > context) {
    return fail(Code::Invalid,
                fmt::format("{} tokens do not fit a context of {}", open.tokens.size(), context));
  }
  if (open.prompt_tokens > open.tokens.size()) {
    return fail(Code::Invalid,
                fmt::format("a prompt of {} of {} tokens", open.prompt_tokens, open.tokens.size()));
  }
  for (const std::int32_t token : open.tokens) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= vocabulary) {
      return fail(Code::Invalid,
                  fmt::format("token {} is not in a vocabulary of {}", token, vocabulary));
    }
  }
  return {};
}

}  // namespace

Result<> SimEngine::open(const Open& open) {
  const std::lock_guard lock(mutex_);
  Model& model = *TRY(find(open.model));
  if (open.seq.value >= model.sequences.size()) {
    return fail(Code::Invalid,
                fmt::format("sequence {} of {}", open.seq.value, model.sequences.size()));
  }
  if (model.find(open.seq) != nullptr) {
    return fail(Code::Conflict, fmt::format("sequence {} is open", open.seq.value));
  }
  TRY_VOID(check_tokens(open, options_.vocabulary, model.context));
  Sequence sequence;
  if (open.from) {
    const Sequence* source = model.find(*open.from);
    if (source == nullptr) {
      return fail(Code::NotFound, fmt::format("no sequence {} to take from", open.from->value));
    }
    const std::uint32_t n = open.from_tokens;
    if (n > source->cells.size() || n >= open.tokens.size() ||
        !std::equal(open.tokens.begin(), open.tokens.begin() + n, source->tokens.begin())) {
      return fail(Code::Invalid,
                  fmt::format("sequence {} has not computed these {} tokens", open.from->value, n));
    }
    if (!options_.cut_anywhere && n != source->cells.size()) {
      return fail(Code::Unsupported, "this model's memory cannot be cut");
    }
    sequence.cells.assign(source->cells.begin(), source->cells.begin() + n);
    for (const std::uint32_t cell : sequence.cells) model.pool.share(cell);
  }
  sequence.tokens = open.tokens;
  sequence.hash = hash_tokens(0, open.tokens);
  sequence.sampling = open.sampling;
  model.sequences[open.seq.value] = std::move(sequence);
  return {};
}

Result<SimEngine::Plan> SimEngine::plan(Model& model, const Run& run) const {
  Plan plan;
  std::set<SeqId> seen;
  std::uint32_t outputs = 0;
  for (const RunItem& item : run.items) {
    if (!seen.insert(item.seq).second) {
      return fail(Code::Invalid, fmt::format("sequence {} twice in a run", item.seq.value));
    }
    const Sequence* sequence = model.find(item.seq);
    plan.skip.push_back(sequence == nullptr || sequence->ended);
    if (plan.skip.back()) continue;
    const std::uint64_t computed = sequence->cells.size();
    const std::uint64_t after = computed + item.tokens;
    if (item.tokens == 0 || after > sequence->tokens.size() || after > model.context) {
      return fail(Code::Invalid,
                  fmt::format("sequence {} cannot advance by {}: {} of {} tokens are computed, and "
                              "the context is {}",
                              item.seq.value, item.tokens, computed, sequence->tokens.size(),
                              model.context));
    }
    const bool samples = after == sequence->tokens.size() && !model.spec.embeds;
    outputs += samples ? 1 : 0;
    // One token that samples is a decode, be it the last of a prompt or the one just sampled.
    (samples && item.tokens == 1 ? plan.decodes : plan.prompt) += item.tokens;
    // Token i attends to i tokens before it and to itself.
    plan.attended += static_cast<std::int64_t>((computed + 1 + after) * item.tokens / 2);
  }
  const std::uint32_t tokens = plan.decodes + plan.prompt;
  if (model.spec.batch_tokens != 0 && tokens > model.spec.batch_tokens) {
    return fail(Code::TooLarge,
                fmt::format("{} tokens in a run; at most {}", tokens, model.spec.batch_tokens));
  }
  if (model.spec.outputs != 0 && outputs > model.spec.outputs) {
    return fail(Code::TooLarge,
                fmt::format("{} items of a run sample; at most {}", outputs, model.spec.outputs));
  }
  if (tokens > model.pool.free()) {
    return fail(Code::Busy,
                fmt::format("{} tokens do not fit the {} free cells of the KV pool of {}", tokens,
                            model.pool.free(), model.pool.size()));
  }
  return plan;
}

void SimEngine::sample(const Sequence& sequence, ItemResult& result) const {
  const Sampling& sampling = sequence.sampling;
  std::uint64_t h = sequence.hash;
  if (sampling.temperature > 0) {
    h = hash_combine(h, hash_combine(sampling.seed, sampling.choice));
  }
  h = mix64(h);
  const bool ends =
      options_.end_one_in != 0 && !sampling.ignore_eos && mix64(h) % options_.end_one_in == 0;
  const auto byte = static_cast<std::int32_t>(kFirstPrintable + h % kPrintable);
  result.token = ends ? options_.end_token : kFirstByteToken + byte;
  result.state = ends ? ItemState::Ended : ItemState::Sampled;
  result.logprob = -static_cast<float>(h % 1000) / 1000.0F;
  result.best[0] = 10.0F;
  result.best[1] = 10.0F + result.logprob - 1.0F;
  for (std::int32_t i = 0; i < sampling.logprobs; ++i) {
    const std::int32_t next = (byte - static_cast<std::int32_t>(kFirstPrintable) + i) %
                              static_cast<std::int32_t>(kPrintable);
    const std::int32_t other = kFirstByteToken + static_cast<std::int32_t>(kFirstPrintable) + next;
    result.top.push_back({i == 0 ? result.token : other, result.logprob - static_cast<float>(i)});
  }
}

// A vector of length 1 that depends on the tokens alone.
void SimEngine::embed(const Sequence& sequence, ItemResult& result) {
  result.state = ItemState::Embedded;
  std::uint64_t h = sequence.hash;
  double square = 0;
  for (std::uint32_t i = 0; i < kEmbedding; ++i) {
    h = mix64(h);
    result.embedding.push_back(static_cast<float>(h % 2001) / 1000.0F - 1.0F);
    square += static_cast<double>(result.embedding.back()) * result.embedding.back();
  }
  for (float& value : result.embedding) value = static_cast<float>(value / std::sqrt(square));
}

ItemResult SimEngine::advance(Model& model, const RunItem& item) const {
  Sequence& sequence = *model.find(item.seq);
  for (std::uint32_t i = 0; i < item.tokens; ++i) sequence.cells.push_back(model.pool.take());
  ItemResult result;
  result.seq = item.seq;
  result.tokens = item.tokens;
  if (sequence.cells.size() < sequence.tokens.size()) return result;
  if (model.spec.embeds) {
    embed(sequence, result);
    return result;
  }
  sample(sequence, result);
  sequence.tokens.push_back(result.token);
  sequence.hash = hash_combine(sequence.hash, static_cast<std::uint32_t>(result.token));
  sequence.ended = result.state == ItemState::Ended;
  return result;
}

Result<Ran> SimEngine::run(const Run& run) {
  Ran ran;
  {
    const std::lock_guard lock(mutex_);
    Model& model = *TRY(find(run.model));
    const Plan plan = TRY(this->plan(model, run));
    ran.run = run.run;
    ran.model = run.model;
    for (std::size_t i = 0; i < run.items.size(); ++i) {
      if (plan.skip[i]) {
        ItemResult skipped;
        skipped.seq = run.items[i].seq;
        skipped.state = ItemState::Skipped;
        ran.items.push_back(std::move(skipped));
      } else {
        ran.items.push_back(advance(model, run.items[i]));
      }
    }
    if (plan.decodes + plan.prompt > 0) {
      ran.device = options_.cost.fixed + cost_at(options_.cost.decode, plan.decodes) +
                   cost_at(options_.cost.prompt, plan.prompt) +
                   options_.cost.attended * plan.attended;
    }
    ran.span_tokens = model.pool.span();
    ran.threads = 1;
  }
  if (options_.time == SimTime::Spent) std::this_thread::sleep_for(ran.device);
  return ran;
}

Result<Saved> SimEngine::save(const Save& save) {
  const std::lock_guard lock(mutex_);
  Model& model = *TRY(find(save.model));
  const Sequence* sequence = model.find(save.seq);
  if (sequence == nullptr) {
    return fail(Code::NotFound, fmt::format("sequence {} is not open", save.seq.value));
  }
  if (model.states.contains(save.state)) {
    return fail(Code::Conflict, fmt::format("state {} is in use", save.state.value));
  }
  const std::uint64_t end = std::uint64_t{save.from} + save.tokens;
  if (save.tokens == 0 || end > sequence->cells.size()) {
    return fail(Code::Invalid, fmt::format("sequence {} holds {} tokens, not those from {} to {}",
                                           save.seq.value, sequence->cells.size(), save.from, end));
  }
  if (!options_.cut_anywhere && (save.from != 0 || end != sequence->cells.size())) {
    return fail(Code::Unsupported, "this model's memory can only be copied whole");
  }
  Model::State& state = model.states[save.state];
  state.tokens.assign(sequence->tokens.begin(),
                      sequence->tokens.begin() + static_cast<std::ptrdiff_t>(end));
  state.from = save.from;
  return Saved{save.model, save.state, Bytes{std::int64_t{save.tokens} * kKvBytesPerToken}, {}};
}

// As llama.cpp does, it needs cells for all that the state holds meanwhile.
Result<> SimEngine::restore(const Restore& restore) {
  const std::lock_guard lock(mutex_);
  Model& model = *TRY(find(restore.model));
  Sequence* sequence = model.find(restore.seq);
  const auto found = model.states.find(restore.state);
  if (sequence == nullptr || found == model.states.end()) {
    return fail(Code::NotFound, fmt::format("there is no sequence {}, or no state {}",
                                            restore.seq.value, restore.state.value));
  }
  const Model::State& state = found->second;
  const std::uint32_t end = restore.end;
  if (sequence->cells.size() != state.from || end <= state.from || end > state.tokens.size() ||
      end >= sequence->tokens.size() ||
      !std::equal(state.tokens.begin(), state.tokens.begin() + end, sequence->tokens.begin())) {
    return fail(Code::Invalid,
                fmt::format("state {} does not hold the tokens {} to {} of sequence {}",
                            restore.state.value, sequence->cells.size(), end, restore.seq.value));
  }
  if (!options_.cut_anywhere && end != state.tokens.size()) {
    return fail(Code::Unsupported, "this model's memory can only be put back whole");
  }
  if (state.held() > model.pool.free()) {
    return fail(Code::Busy, fmt::format("{} saved tokens do not fit the {} free cells",
                                        state.held(), model.pool.free()));
  }
  while (sequence->cells.size() < end) sequence->cells.push_back(model.pool.take());
  return {};
}

void SimEngine::forget(ModelId model, StateId state) {
  const std::lock_guard lock(mutex_);
  if (const Result<Model*> found = find(model)) (*found)->states.erase(state);
}

void SimEngine::drop(ModelId model_id, SeqId seq) {
  const std::lock_guard lock(mutex_);
  const Result<Model*> model = find(model_id);
  if (!model) return;
  const Sequence* sequence = (*model)->find(seq);
  if (sequence == nullptr) return;
  for (const std::uint32_t cell : sequence->cells) (*model)->pool.give_back(cell);
  (*model)->sequences[seq.value].reset();
}

Result<> SimEngine::lease(const Lease& /*lease*/) {
  return fail(Code::Unsupported, "the sim engine keeps no tensors");
}

Result<> SimEngine::release(std::uint64_t /*handle*/) {
  return fail(Code::Unsupported, "the sim engine keeps no tensors");
}

MemoryReport SimEngine::memory() const {
  const std::lock_guard lock(mutex_);
  MemoryReport report;
  report.device_total = options_.device_memory;
  report.device_free = options_.device_memory;
  for (const auto& [id, model] : models_) {
    MemoryUse use;
    use.model = id;
    use.weights = Bytes{kWeightBytes};
    use.kv = Bytes{std::int64_t{model->pool.size()} * kKvBytesPerToken};
    use.pool_tokens = model->pool.size();
    for (const std::optional<Sequence>& sequence : model->sequences) {
      if (!sequence) continue;
      ++use.sequences_open;
      use.used_tokens += static_cast<std::uint32_t>(sequence->cells.size());
    }
    for (const auto& [state_id, state] : model->states) {
      report.host_saved += Bytes{std::int64_t{state.held()} * kKvBytesPerToken};
    }
    report.device_free -= use.weights + use.kv;
    report.models.push_back(use);
  }
  return report;
}

void SimEngine::check() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, model] : models_) {
    std::set<std::uint32_t> held;
    for (const std::optional<Sequence>& sequence : model->sequences) {
      if (!sequence) continue;
      LARES_ASSERT(sequence->cells.size() <= sequence->tokens.size(), "{} cells for {} tokens",
                   sequence->cells.size(), sequence->tokens.size());
      held.insert(sequence->cells.begin(), sequence->cells.end());
    }
    LARES_ASSERT(held.size() == model->pool.used(), "{} cells held, {} used", held.size(),
                 model->pool.used());
    const std::uint32_t span = held.empty() ? 0 : *held.rbegin() + 1;
    LARES_ASSERT(span == model->pool.span(), "span {} is not {}", model->pool.span(), span);
  }
}

}  // namespace lares::engine
