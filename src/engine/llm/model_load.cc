// Model: from a file to a context that has computed its first token.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "core/log.h"
#include "core/text.h"
#include "engine/llm/backend.h"
#include "engine/llm/info.h"
#include "engine/llm/model.h"
#include "engine/pool_size.h"

namespace lares::llm {
namespace {

constexpr std::uint32_t kBatchTokens = 512;  // Where LoadSpec leaves it open.
constexpr std::uint32_t kPoolStep = 256;     // The library rounds a pool up to this.

std::uint32_t rounded_up(std::uint32_t tokens) {
  return (tokens + kPoolStep - 1) / kPoolStep * kPoolStep;
}

Result<std::uint32_t> pool_tokens_for(const engine::LoadSpec& spec, const engine::ModelInfo& info) {
  const Bytes free = device_memory().free;
  if (spec.pool_tokens == 0) return engine::choose_pool_tokens(info, free);
  const std::uint32_t tokens = rounded_up(spec.pool_tokens);
  const std::int64_t need = tokens * info.kv_per_token.count;
  if (free.count > 0 && need > free.count) {
    return fail(Code::TooLarge,
                fmt::format("{}: a KV pool of {} tokens takes {}, and {} of memory are free",
                            spec.path, tokens, format_bytes(need), format_bytes(free.count)));
  }
  return tokens;
}

Result<> check_kind(const std::string& path, const engine::ModelInfo& info) {
  if (info.can.generates) return {};
  return fail(Code::Unsupported,
              fmt::format("{} ({}) does not generate text; the text engine cannot run it", path,
                          info.architecture));
}

std::vector<std::int32_t> end_tokens_of(const llama_vocab* vocab) {
  std::vector<std::int32_t> ends;
  for (llama_token token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
    if (llama_vocab_is_eog(vocab, token)) ends.push_back(token);
  }
  return ends;
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const engine::LoadSpec& spec,
                                           std::shared_ptr<llama_model> weights,
                                           const ThreadPool& pool,
                                           std::uint32_t measuring_threads) {
  std::unique_ptr<Model> model(new Model());
  model->model_ = std::move(weights);
  model->loaded_.model = spec.model;
  model->loaded_.info = describe_model(model->model_.get());
  TRY_VOID(check_kind(spec.path, model->loaded_.info));
  model->adapter_ = TRY(load_adapter(model->model_.get(), spec));
  TRY_VOID(model->make_context(spec));
  TRY_VOID(use_adapter(model->context_.get(), model->adapter_, spec));
  TRY_VOID(model->warm_up());
  pool.attach(model->context_.get());
  if (measuring_threads > 0) model->measure_steps(measuring_threads);
  return model;
}

Result<> Model::make_context(const engine::LoadSpec& spec) {
  const std::uint32_t pool = TRY(pool_tokens_for(spec, loaded_.info));
  llama_context_params params = llama_context_default_params();
  params.n_ctx = pool;
  params.n_batch = spec.batch_tokens != 0 ? spec.batch_tokens : kBatchTokens;
  params.n_ubatch = params.n_batch;
  params.n_seq_max = spec.sequences + 1;  // See scratch().
  // llama.cpp asserts room for one output of every sequence, however many a run may ask for.
  params.n_outputs_max = std::max(spec.outputs, params.n_seq_max);
  params.kv_unified = true;
  params.no_perf = true;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  clear_backend_error();
  context_.reset(llama_init_from_model(model_.get(), params));
  if (!context_) {
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_AUTO;
    context_.reset(llama_init_from_model(model_.get(), params));
  }
  if (!context_) return tl::unexpected(load_error(spec.path, backend_error()));

  memory_ = memory_of(context_.get());
  memory_.compute += adapter_bytes(spec);
  loaded_.weights = memory_.weights;
  loaded_.kv = memory_.kv;
  loaded_.compute = memory_.compute;
  loaded_.pool_tokens = llama_n_ctx(context_.get());
  loaded_.sequences = spec.sequences;
  loaded_.context =
      std::min(spec.context != 0 ? spec.context : loaded_.info.context, loaded_.pool_tokens);
  if (loaded_.info.can.cut_anywhere && loaded_.pool_tokens > 0) {
    loaded_.info.kv_per_token = Bytes{memory_.kv.count / loaded_.pool_tokens};
  }
  batch_tokens_ = llama_n_batch(context_.get());
  outputs_ = std::min(spec.outputs != 0 ? spec.outputs : spec.sequences, batch_tokens_);
  threads_ = 1;
  batch_.reset(new llama_batch(llama_batch_init(static_cast<std::int32_t>(batch_tokens_), 0, 1)));
  end_tokens_ = end_tokens_of(llama_model_get_vocab(model_.get()));
  sequences_.resize(spec.sequences);
  in_run_.resize(spec.sequences);
  cells_ = Cells(loaded_.pool_tokens, spec.sequences + 1);
  log_info("model loaded", {{"path", spec.path},
                            {"pool_tokens", loaded_.pool_tokens},
                            {"chosen", spec.pool_tokens == 0 ? "by free memory" : "by request"},
                            {"context", loaded_.context},
                            {"weights", format_bytes(memory_.weights.count)},
                            {"kv", format_bytes(memory_.kv.count)},
                            {"compute", format_bytes(memory_.compute.count)}});
  return {};
}

// One token on one thread: models may be running beside this on all the others.
Result<> Model::warm_up() {
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  const llama_token begin = llama_vocab_bos(vocab);
  llama_token token = begin == LLAMA_TOKEN_NULL ? 0 : begin;
  const int status = llama_decode(context_.get(), llama_batch_get_one(&token, 1));
  llama_synchronize(context_.get());
  llama_memory_clear(llama_get_memory(context_.get()), true);
  if (status == 0) return {};
  return fail(Code::Corrupt,
              fmt::format("the model could not compute its first token (llama_decode: {}) {}",
                          status, backend_error()));
}

}  // namespace lares::llm
