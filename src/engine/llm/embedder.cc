#include "engine/llm/embedder.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/log.h"
#include "core/text.h"
#include "engine/embedding.h"
#include "engine/llm/backend.h"
#include "engine/llm/info.h"

namespace lares::llm {
namespace {

Instant clock_now() {
  return Instant(std::chrono::steady_clock::now().time_since_epoch());
}

llama_seq_id native(SeqId seq) {
  return static_cast<llama_seq_id>(seq.value);
}

std::uint32_t or_default(std::uint32_t asked, std::uint32_t otherwise) {
  return asked == 0 ? otherwise : asked;
}

}  // namespace

void Embedder::FreeBatch::operator()(llama_batch* batch) const {
  llama_batch_free(*batch);
  delete batch;
}

Embedder::~Embedder() {
  if (context_) llama_detach_threadpool(context_.get());
}

Result<std::unique_ptr<Embedder>> Embedder::load(const engine::LoadSpec& spec,
                                                 std::shared_ptr<llama_model> weights,
                                                 const ThreadPool& pool,
                                                 std::uint32_t measuring_threads) {
  std::unique_ptr<Embedder> embedder(new Embedder());
  embedder->model_ = std::move(weights);
  embedder->loaded_.model = spec.model;
  embedder->loaded_.info = describe_model(embedder->model_.get());
  const engine::Capabilities& can = embedder->loaded_.info.can;
  if (!can.embeds && !can.generates) {
    return fail(Code::Unsupported, fmt::format("{} ({}) makes no embeddings", spec.path,
                                               embedder->loaded_.info.architecture));
  }
  embedder->whole_text_ = can.whole_text;
  const int pooling = pooling_type(embedder->model_.get());
  if (pooling == LLAMA_POOLING_TYPE_CLS) embedder->pooling_ = Pooling::First;
  if (pooling == LLAMA_POOLING_TYPE_LAST) embedder->pooling_ = Pooling::Last;
  embedder->adapter_ = TRY(load_adapter(embedder->model_.get(), spec));
  TRY_VOID(embedder->make_context(spec));
  TRY_VOID(use_adapter(embedder->context_.get(), embedder->adapter_, spec));
  TRY_VOID(embedder->warm_up());
  pool.attach(embedder->context_.get());
  if (measuring_threads > 0) embedder->measure_steps(measuring_threads);
  return embedder;
}

Result<> Embedder::make_context(const engine::LoadSpec& spec) {
  const std::uint32_t most = engine::embed_context(loaded_.info);
  const std::uint32_t longest = std::min(or_default(spec.context, most), most);
  const std::uint32_t chunk = or_default(spec.batch_tokens, engine::kEmbedBatchTokens);
  batch_tokens_ = whole_text_ ? longest : chunk;
  llama_context_params params = llama_context_default_params();
  params.n_ctx =
      whole_text_ ? batch_tokens_ : or_default(spec.pool_tokens, engine::kEmbedPoolTokens);
  params.n_batch = batch_tokens_;
  params.n_ubatch = batch_tokens_;
  params.n_seq_max = spec.sequences;
  params.n_outputs_max = std::max(batch_tokens_, spec.sequences);
  params.kv_unified = true;
  params.no_perf = true;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.embeddings = true;
  // One row a token: chunks of many texts share a micro-batch, and are put together here.
  params.pooling_type = LLAMA_POOLING_TYPE_NONE;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO;
  clear_backend_error();
  context_.reset(llama_init_from_model(model_.get(), params));
  if (!context_) return tl::unexpected(load_error(spec.path, backend_error()));

  memory_ = memory_of(context_.get());
  memory_.compute += adapter_bytes(spec);
  width_ = static_cast<std::uint32_t>(llama_model_n_embd_out(model_.get()));
  loaded_.info.embedding = width_;
  loaded_.weights = memory_.weights;
  loaded_.kv = memory_.kv;
  loaded_.compute = memory_.compute;
  loaded_.sequences = spec.sequences;
  // A model without a KV cache has no pool; the scheduler needs one in which its texts fit.
  const bool has_pool = llama_get_memory(context_.get()) != nullptr;
  loaded_.pool_tokens = has_pool ? llama_n_ctx(context_.get())
                                 : or_default(spec.pool_tokens, engine::kEmbedPoolTokens);
  loaded_.context = std::min(longest, loaded_.pool_tokens);
  batch_.reset(new llama_batch(llama_batch_init(static_cast<std::int32_t>(batch_tokens_), 0, 1)));
  texts_.resize(spec.sequences);
  log_info("model loaded for embeddings", {{"path", spec.path},
                                           {"width", width_},
                                           {"context", loaded_.context},
                                           {"batch_tokens", batch_tokens_},
                                           {"kv", format_bytes(memory_.kv.count)}});
  return {};
}

Result<> Embedder::warm_up() {
  texts_[0].open = true;
  const llama_token begin = llama_vocab_bos(llama_model_get_vocab(model_.get()));
  texts_[0].tokens = {begin == LLAMA_TOKEN_NULL ? 0 : begin};
  const Part part{SeqId{0}, 0, 1};
  const Result<> done = compute({&part, 1});
  drop(SeqId{0});
  if (done) return {};
  return fail(Code::Corrupt, fmt::format("the model could not compute its first token: {} {}",
                                         done.error().message, backend_error()));
}

// Steps of 1, 2, 4 ... tokens of one text; the better of two, for something else may run beside.
void Embedder::measure_steps(std::uint32_t threads) {
  threads_ = threads;
  llama_set_n_threads(context_.get(), static_cast<int>(threads), static_cast<int>(threads));
  for (std::uint32_t tokens = 1; tokens <= batch_tokens_; tokens *= 2) {
    Duration best = Duration::max();
    for (int i = 0; i < 2; ++i) {
      texts_[0].open = true;
      texts_[0].tokens.assign(tokens, 0);
      const Part part{SeqId{0}, 0, tokens};
      const Instant from = clock_now();
      const Result<> done = compute({&part, 1});
      if (done) best = std::min<Duration>(best, clock_now() - from);
      drop(SeqId{0});
    }
    if (best == Duration::max()) return;
    loaded_.step_times.push_back({.prompt = tokens, .time = best});
  }
}

Result<> Embedder::open(const engine::Open& open) {
  if (open.seq.value >= texts_.size()) {
    return fail(Code::Invalid, fmt::format("sequence {} does not exist: the model has {}",
                                           open.seq.value, texts_.size()));
  }
  Text& text = texts_[open.seq.value];
  if (text.open) {
    return fail(Code::Conflict, fmt::format("sequence {} is open already", open.seq.value));
  }
  if (open.tokens.empty() || open.tokens.size() > loaded_.context) {
    return fail(Code::Invalid, fmt::format("a text of {} tokens; 1 to {} are possible",
                                           open.tokens.size(), loaded_.context));
  }
  const auto vocabulary = static_cast<std::int32_t>(loaded_.info.vocabulary);
  const auto outside = [&](std::int32_t token) { return token < 0 || token >= vocabulary; };
  if (std::ranges::any_of(open.tokens, outside)) {
    return fail(Code::Invalid, fmt::format("a token is outside the vocabulary of {}", vocabulary));
  }
  if (open.from && open.from_tokens > 0) {
    return fail(Code::Unsupported, "texts to embed share nothing: every row is needed");
  }
  text = Text{};
  text.open = true;
  text.tokens = open.tokens;
  return {};
}

// What each item comes to, and in parts_ what is to be computed. Changes no text.
Result<std::vector<engine::ItemResult>> Embedder::plan(const engine::Run& run) {
  parts_.clear();
  std::vector<engine::ItemResult> results;
  for (const engine::RunItem& item : run.items) {
    if (std::ranges::find(results, item.seq, &engine::ItemResult::seq) != results.end()) {
      return fail(Code::Invalid, fmt::format("sequence {} is in the run twice", item.seq.value));
    }
    engine::ItemResult& result = results.emplace_back();
    result.seq = item.seq;
    const Text* text = item.seq.value < texts_.size() ? &texts_[item.seq.value] : nullptr;
    if (text == nullptr || !text->open || text->taken == text->tokens.size()) {
      result.state = engine::ItemState::Skipped;
      continue;
    }
    const auto size = static_cast<std::uint32_t>(text->tokens.size());
    result.tokens = std::min(item.tokens, size - text->taken);
    const std::uint32_t to = text->taken + result.tokens;
    if (to == size) result.state = engine::ItemState::Embedded;
    if (!whole_text_) {
      parts_.push_back({item.seq, text->taken, to});
    } else if (to == size) {
      parts_.push_back({item.seq, 0, to});
    }
  }
  return results;
}

// In micro-batches; where whole texts are needed, none of them is cut.
Result<> Embedder::compute(std::span<const Part> parts) {
  std::size_t begin = 0;
  std::uint32_t tokens = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint32_t more = parts[i].to - parts[i].from;
    if (more > batch_tokens_) {
      return fail(Code::TooLarge, fmt::format("{} tokens of a text in one run; {} are the most",
                                              more, batch_tokens_));
    }
    if (tokens + more > batch_tokens_) {
      TRY_VOID(compute_batch(parts.subspan(begin, i - begin)));
      begin = i;
      tokens = 0;
    }
    tokens += more;
  }
  return begin == parts.size() ? Result<>{} : compute_batch(parts.subspan(begin));
}

Result<> Embedder::compute_batch(std::span<const Part> parts) {
  llama_batch& batch = *batch_;
  batch.n_tokens = 0;
  for (const Part& part : parts) {
    for (std::uint32_t position = part.from; position < part.to; ++position) {
      const auto at = static_cast<std::size_t>(batch.n_tokens++);
      batch.token[at] = texts_[part.seq.value].tokens[position];
      batch.pos[at] = static_cast<llama_pos>(position);
      batch.n_seq_id[at] = 1;
      batch.seq_id[at][0] = native(part.seq);
      batch.logits[at] = 1;
    }
  }
  const bool cached = llama_get_memory(context_.get()) != nullptr;
  const int status =
      cached ? llama_decode(context_.get(), batch) : llama_encode(context_.get(), batch);
  llama_synchronize(context_.get());
  if (status != 0) {
    return fail(status == 1 ? Code::Busy : Code::Io,
                fmt::format("llama.cpp could not compute {} tokens ({})", batch.n_tokens, status));
  }
  keep_rows(parts);
  // Nothing follows a text that was read in one piece.
  if (whole_text_) forget(parts);
  return {};
}

void Embedder::keep_rows(std::span<const Part> parts) {
  std::int32_t row = 0;
  for (const Part& part : parts) {
    Text& text = texts_[part.seq.value];
    text.rows.resize(width_, 0.0);
    for (std::uint32_t position = part.from; position < part.to; ++position, ++row) {
      const bool first = position == 0;
      const bool last = position + 1 == text.tokens.size();
      if ((pooling_ == Pooling::First && !first) || (pooling_ == Pooling::Last && !last)) continue;
      const float* values = llama_get_embeddings_ith(context_.get(), row);
      LARES_ASSERT(values != nullptr, "no embedding for row {} of the batch", row);
      for (std::uint32_t i = 0; i < width_; ++i) text.rows[i] += static_cast<double>(values[i]);
    }
  }
}

void Embedder::forget(std::span<const Part> parts) {
  llama_memory_t memory = llama_get_memory(context_.get());
  if (memory == nullptr) return;
  for (const Part& part : parts) llama_memory_seq_rm(memory, native(part.seq), -1, -1);
}

// Of length 1, so that the number of rows that were added does not matter.
std::vector<float> Embedder::pooled(const Text& text) const {
  double square = 0;
  for (const double value : text.rows) square += value * value;
  const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
  std::vector<float> out;
  out.reserve(width_);
  for (const double value : text.rows) out.push_back(static_cast<float>(value * scale));
  return out;
}

Result<engine::Ran> Embedder::run(const engine::Run& run, std::uint32_t threads) {
  const Instant begin = clock_now();
  engine::Ran ran;
  ran.run = run.run;
  ran.model = run.model;
  ran.items = TRY(plan(run));
  if (threads != threads_) {
    threads_ = threads;
    llama_set_n_threads(context_.get(), static_cast<int>(threads), static_cast<int>(threads));
  }
  // What a failure leaves half added would be wrong for good: the texts begin again.
  if (Result<> done = compute(parts_); !done) {
    for (const engine::RunItem& item : run.items) {
      if (item.seq.value >= texts_.size()) continue;
      const Part all{item.seq, 0, 0};
      forget({&all, 1});
      texts_[item.seq.value].rows.clear();
      texts_[item.seq.value].taken = 0;
    }
    return tl::unexpected(std::move(done.error()));
  }
  for (engine::ItemResult& result : ran.items) {
    if (result.state == engine::ItemState::Skipped) continue;
    Text& text = texts_[result.seq.value];
    text.taken += result.tokens;
    if (result.state == engine::ItemState::Embedded) result.embedding = pooled(text);
  }
  ran.device = clock_now() - begin;
  ran.threads = threads_;
  return ran;
}

void Embedder::drop(SeqId seq) {
  if (seq.value >= texts_.size() || !texts_[seq.value].open) return;
  const Part all{seq, 0, 0};
  forget({&all, 1});
  texts_[seq.value] = Text{};
}

engine::MemoryUse Embedder::memory() const {
  engine::MemoryUse use;
  use.model = loaded_.model;
  use.weights = memory_.weights;
  use.kv = memory_.kv;
  use.compute = memory_.compute;
  use.pool_tokens = loaded_.pool_tokens;
  for (const Text& text : texts_) {
    if (!text.open) continue;
    ++use.sequences_open;
    use.used_tokens += text.taken;
  }
  return use;
}

}  // namespace lares::llm
