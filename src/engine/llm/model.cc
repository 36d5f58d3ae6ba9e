#include "engine/llm/model.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "core/assert.h"

namespace lares::llm {
namespace {

Instant clock_now() {
  return Instant(std::chrono::steady_clock::now().time_since_epoch());
}

llama_seq_id native(SeqId seq) {
  return static_cast<llama_seq_id>(seq.value);
}

}  // namespace

void Model::FreeBatch::operator()(llama_batch* batch) const {
  llama_batch_free(*batch);
  delete batch;
}

Model::~Model() {
  if (context_) llama_detach_threadpool(context_.get());
}

Sequence* Model::find(SeqId seq) {
  return seq.value < sequences_.size() && sequences_[seq.value].open ? &sequences_[seq.value]
                                                                     : nullptr;
}

Result<> Model::check_open(const engine::Open& open) const {
  if (open.seq.value >= sequences_.size()) {
    return fail(Code::Invalid, fmt::format("sequence {} does not exist: the model has {}",
                                           open.seq.value, sequences_.size()));
  }
  if (sequences_[open.seq.value].open) {
    return fail(Code::Conflict, fmt::format("sequence {} is open already", open.seq.value));
  }
  if (open.tokens.empty()) return fail(Code::Invalid, "a sequence needs at least one token");
  if (open.tokens.size() > loaded_.context) {
    return fail(Code::Invalid, fmt::format("{} tokens are more than the model's context of {}",
                                           open.tokens.size(), loaded_.context));
  }
  const auto vocabulary = static_cast<std::int32_t>(loaded_.info.vocabulary);
  const auto outside =
      std::find_if(open.tokens.begin(), open.tokens.end(),
                   [&](std::int32_t token) { return token < 0 || token >= vocabulary; });
  if (outside != open.tokens.end()) {
    return fail(Code::Invalid,
                fmt::format("token {} at position {} is outside the vocabulary of {}", *outside,
                            outside - open.tokens.begin(), vocabulary));
  }
  if (!open.from || open.from_tokens == 0) return {};
  if (!loaded_.info.can.cut_anywhere) {
    return fail(Code::Unsupported, "this model's memory cannot be shared at a position");
  }
  if (open.from->value >= sequences_.size() || !sequences_[open.from->value].open) {
    return fail(Code::NotFound,
                fmt::format("sequence {} holds nothing to share", open.from->value));
  }
  const Sequence& source = sequences_[open.from->value];
  if (open.from_tokens >= open.tokens.size() || open.from_tokens > source.computed ||
      !std::equal(open.tokens.begin(), open.tokens.begin() + open.from_tokens,
                  source.tokens.begin())) {
    return fail(Code::Invalid,
                fmt::format("sequence {} does not hold the first {} of these {} tokens",
                            open.from->value, open.from_tokens, open.tokens.size()));
  }
  return {};
}

Result<> Model::open(const engine::Open& open) {
  TRY_VOID(check_open(open));
  Sequence& sequence = sequences_[open.seq.value];
  std::unique_ptr<Grammar> grammar;
  if (!open.constraint.empty()) {
    const std::span<const std::int32_t> tokens(open.tokens);
    const llama_vocab* vocab = llama_model_get_vocab(model_.get());
    if (!tokens_) tokens_ = std::make_unique<TokenIndex>(vocab);
    const std::size_t prompt = std::min<std::size_t>(open.prompt_tokens, tokens.size());
    grammar = TRY(Grammar::create(vocab, open.constraint, tokens.subspan(prompt), tokens_.get()));
  }
  sequence = Sequence{};
  sequence.grammar = std::move(grammar);
  sequence.open = true;
  sequence.tokens = open.tokens;
  sequence.prompt_tokens =
      std::min(open.prompt_tokens, static_cast<std::uint32_t>(open.tokens.size()));
  sequence.sampling = open.sampling;
  if (open.from && open.from_tokens > 0) {
    llama_memory_seq_cp(llama_get_memory(context_.get()), native(*open.from), native(open.seq), 0,
                        static_cast<llama_pos>(open.from_tokens));
    cells_.share(*open.from, open.seq, open.from_tokens);
    sequence.computed = open.from_tokens;
  }
  return {};
}

// Decides what each item comes to. Errors leave everything as it was.
Result<> Model::plan(const engine::Run& run) {
  parts_.assign(run.items.size(), Part{});
  std::fill(in_run_.begin(), in_run_.end(), false);
  std::uint64_t tokens = 0;
  std::uint64_t outputs = 0;
  for (std::size_t i = 0; i < run.items.size(); ++i) {
    const engine::RunItem& item = run.items[i];
    const Sequence* sequence = find(item.seq);
    if (sequence == nullptr || !sequence->can_run()) continue;
    if (in_run_[item.seq.value]) {
      return fail(Code::Invalid, fmt::format("sequence {} is in the run twice", item.seq.value));
    }
    in_run_[item.seq.value] = true;
    parts_[i].tokens = sequence->step(item.tokens, loaded_.context);
    tokens += parts_[i].tokens;
    outputs += sequence->samples_after(parts_[i].tokens) ? 1 : 0;
  }
  if (tokens > batch_tokens_) {
    return fail(Code::TooLarge,
                fmt::format("a run of {} tokens; {} is the most", tokens, batch_tokens_));
  }
  if (outputs > outputs_) {
    return fail(Code::TooLarge,
                fmt::format("a run that samples {} rows; {} is the most", outputs, outputs_));
  }
  return {};
}

void Model::add_tokens(const engine::RunItem& item, Part& part) {
  const Sequence& sequence = sequences_[item.seq.value];
  llama_batch& batch = *batch_;
  for (std::uint32_t i = 0; i < part.tokens; ++i) {
    const auto at = static_cast<std::size_t>(batch.n_tokens++);
    const std::uint32_t position = sequence.computed + i;
    batch.token[at] = sequence.tokens[position];
    batch.pos[at] = static_cast<llama_pos>(position);
    batch.n_seq_id[at] = 1;
    batch.seq_id[at][0] = native(item.seq);
    batch.logits[at] = 0;
  }
  if (sequence.samples_after(part.tokens)) {
    part.row = batch.n_tokens - 1;
    batch.logits[part.row] = 1;
  }
}

// Single tokens first, then chunks, each in the order of the items.
void Model::fill_batch(const engine::Run& run) {
  batch_->n_tokens = 0;
  for (const bool single : {true, false}) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if ((parts_[i].tokens == 1) == single) add_tokens(run.items[i], parts_[i]);
    }
  }
}

// Takes back what a failed decode may have written, so that invariant 1 holds again.
Result<> Model::undo(const engine::Run& run, int status) {
  llama_memory_t memory = llama_get_memory(context_.get());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].tokens == 0) continue;
    const SeqId seq = run.items[i].seq;
    const auto computed = static_cast<llama_pos>(sequences_[seq.value].computed);
    if (llama_memory_seq_pos_max(memory, native(seq)) < computed) continue;
    if (!llama_memory_seq_rm(memory, native(seq), computed, -1)) lost_ = true;
  }
  if (lost_) {
    return fail(Code::Io, fmt::format("llama_decode failed ({}) and the state of the sequences is "
                                      "lost; load the model again",
                                      status));
  }
  if (status == 1) {
    return fail(Code::Busy,
                fmt::format("no room in the KV pool: {} of {} cells are in use, {} more "
                            "are needed",
                            cells_.used(), loaded_.pool_tokens, batch_->n_tokens));
  }
  return fail(Code::Io, fmt::format("llama_decode failed ({})", status));
}

Result<> Model::decode(const engine::Run& run) {
  if (batch_->n_tokens == 0) return {};
  const int status = llama_decode(context_.get(), *batch_);
  llama_synchronize(context_.get());
  if (status != 0) return undo(run, status);
  cells_.begin(static_cast<std::uint32_t>(batch_->n_tokens));
  for (std::int32_t i = 0; i < batch_->n_tokens; ++i) {
    cells_.take(SeqId{static_cast<std::uint32_t>(batch_->seq_id[i][0])});
  }
  return {};
}

// Samples the row of a sequence whose last known token has been computed.
void Model::sample_row(std::int32_t index, Sequence& sequence, engine::ItemResult& result) {
  float* row = llama_get_logits_ith(context_.get(), index);
  LARES_ASSERT(row != nullptr, "no logits for row {} of the batch", index);
  Sampled sampled = sampler_.sample({{row, loaded_.info.vocabulary},
                                     sequence.tokens,
                                     sequence.prompt_tokens,
                                     end_tokens_,
                                     sequence.grammar.get()},
                                    sequence.sampling);
  // A finished grammar allows nothing but the end, which overrules ignore_eos.
  const bool end = std::binary_search(end_tokens_.begin(), end_tokens_.end(), sampled.token);
  if (sampled.stuck && !end_tokens_.empty()) sampled.token = end_tokens_.front();
  sequence.ended = sampled.stuck || (end && !(sequence.sampling.ignore_eos && !sequence.grammar));
  if (!sequence.ended) {
    sequence.tokens.push_back(sampled.token);
    if (sequence.grammar) sequence.grammar->accept(sampled.token);
  }
  result.state = sequence.ended ? engine::ItemState::Ended : engine::ItemState::Sampled;
  result.token = sampled.token;
  result.logprob = sampled.logprob;
  std::copy(std::begin(sampled.best), std::end(sampled.best), std::begin(result.best));
  result.top = std::move(sampled.top);
}

void Model::sample(const engine::Run& run, engine::Ran& ran) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    engine::ItemResult result;
    result.seq = run.items[i].seq;
    result.tokens = parts_[i].tokens;
    if (parts_[i].tokens == 0) {
      result.state = engine::ItemState::Skipped;
    } else if (parts_[i].row < 0) {
      sequences_[result.seq.value].computed += parts_[i].tokens;
    } else {
      Sequence& sequence = sequences_[result.seq.value];
      sequence.computed += parts_[i].tokens;
      sample_row(parts_[i].row, sequence, result);
    }
    ran.items.push_back(std::move(result));
  }
}

Result<engine::Ran> Model::run(const engine::Run& run, std::uint32_t threads) {
  if (lost_) return fail(Code::Io, "the state of this model is lost; load it again");
  const Instant begin = clock_now();
  TRY_VOID(plan(run));
  if (threads != threads_) {
    threads_ = threads;
    llama_set_n_threads(context_.get(), static_cast<int>(threads), static_cast<int>(threads));
  }
  fill_batch(run);
  const Instant built = clock_now();
  TRY_VOID(decode(run));
  const Instant decoded = clock_now();

  engine::Ran ran;
  ran.run = run.run;
  ran.model = run.model;
  ran.items.reserve(run.items.size());
  sample(run, ran);
  const Instant done = clock_now();
  times_ = {built - begin, decoded - built, done - decoded};
  ran.device = done - begin;
  ran.sampling = times_.sample;
  ran.span_tokens = cells_.span();
  ran.threads = threads_;
  std::int64_t rows = 0;
  for (const Part& part : parts_) rows += part.row >= 0 ? 1 : 0;
  ran.copied = Bytes{rows * loaded_.info.vocabulary * static_cast<std::int64_t>(sizeof(float)) +
                     batch_->n_tokens * static_cast<std::int64_t>(sizeof(std::int32_t))};
  return ran;
}

void Model::drop(SeqId seq) {
  if (find(seq) == nullptr) return;
  llama_memory_seq_rm(llama_get_memory(context_.get()), native(seq), -1, -1);
  cells_.drop(seq);
  sequences_[seq.value] = Sequence{};
}

engine::MemoryUse Model::memory() const {
  engine::MemoryUse use;
  use.model = loaded_.model;
  use.weights = memory_.weights;
  use.kv = memory_.kv;
  use.compute = memory_.compute;
  use.pool_tokens = loaded_.pool_tokens;
  for (const Sequence& sequence : sequences_) {
    if (!sequence.open) continue;
    ++use.sequences_open;
    use.used_tokens += sequence.computed;
  }
  return use;
}

}  // namespace lares::llm
