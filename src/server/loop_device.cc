// The loop's side of the device worker.
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/text.h"
#include "engine/embedding.h"
#include "server/loop_core.h"

namespace lares::server {
namespace {

constexpr DeviceId kDevice{0};
constexpr std::uint32_t kLoadCrashesMax = 2;

// Of what is saved to the host; 0: nothing is.
Bytes state_bytes_per_token(const engine::Loaded& loaded) {
  if (loaded.pool_tokens == 0 || !loaded.info.can.generates) return {};
  return Bytes{loaded.kv.count / loaded.pool_tokens};
}

}  // namespace

void LoopCore::start_device() {
  device_restart_.retry_at.reset();
  auto started = workers_->start(worker::Kind::Device);
  if (!started) {
    log_error("the device worker cannot be started", {{"why", started.error().message}});
    device_restart_.retry_at = now() + std::chrono::seconds(1);
    return;
  }
  device_ = std::move(*started);
  device_restart_.started = now();
  memory_kills_ = workers_->memory_kills();
  to_device(worker::AskMemory{});
  for (std::uint32_t i = 0; i < models_.size(); ++i) {
    if (models_[i].load_wanted) load_model(i);
  }
}

void LoopCore::read_device() {
  if (device_restart_.retry_at && now() >= *device_restart_.retry_at) start_device();
  if (!device_) return;
  messages_.clear();
  const worker::Worker* const reading = device_.get();
  const auto read = device_->channel().receive_available(messages_);
  for (worker::Message& message : messages_) {
    if (device_.get() != reading) return;  // Given up over one of the messages.
    if (auto* done = std::get_if<worker::RunDone>(&message)) handle(std::move(*done));
    if (auto* failed = std::get_if<worker::RunFailed>(&message)) handle(*failed);
    if (auto* prepared = std::get_if<worker::PrepareDone>(&message)) handle(*prepared);
    if (auto* refused = std::get_if<worker::PrepareFailed>(&message)) handle(*refused);
    if (auto* delivered = std::get_if<worker::DeliverDone>(&message)) handle(std::move(*delivered));
    if (auto* kept = std::get_if<worker::DeliverFailed>(&message)) handle(*kept);
    if (auto* loaded = std::get_if<worker::LoadDone>(&message)) handle(std::move(*loaded));
    if (auto* load_failed = std::get_if<worker::LoadFailed>(&message)) handle(*load_failed);
    if (auto* refused = std::get_if<worker::VerbFailed>(&message)) {
      log_warn("the device worker refused a verb",
               {{"verb", refused->verb}, {"why", refused->error.message}});
    }
    if (auto* memory = std::get_if<worker::Memory>(&message)) handle(*memory);
    if (auto* saved = std::get_if<worker::SaveDone>(&message)) handle(*saved);
    if (auto* not_saved = std::get_if<worker::SaveFailed>(&message)) handle(*not_saved);
    if (auto* not_restored = std::get_if<worker::RestoreFailed>(&message)) handle(*not_restored);
    if (auto* open_failed = std::get_if<worker::OpenFailed>(&message)) handle(*open_failed);
  }
  if (!read && device_.get() == reading) device_lost(read.error().message);
}

void LoopCore::device_lost(const std::string& why) {
  log_warn("the device worker ended; starting it again and going on",
           {{"why", why}, {"running", scheduler_.running()}});
  device_.reset();
  keep_costs();  // The model is loaded anew with what was learnt, not with what was first measured.
  metrics_.device_restarts.add();
  if (!sent_runs_.empty()) {
    for (const sched::StepItem& item : sent_runs_.front().items) {
      const auto owner = choices_.find(item.job);
      if (owner == choices_.end()) continue;
      Request& request = requests_.at(owner->second.first);
      if (request.sketch) ++request.sketch->deaths;
    }
  }
  sent_runs_.clear();
  device_clock_.lost(now());
  answer_memory();
  models_changed_ = true;
  events_.emplace_back(sched::DeviceLost{kDevice});
  shrink_pools();
  for (std::uint32_t i = 0; i < models_.size(); ++i) {
    ModelState& model = models_[i];
    std::ranges::fill(model.seq_owner, JobId{});
    model.pass_spent = {};
    if (model.at == ModelState::At::Loading && ++model.load_crashes >= kLoadCrashesMax) {
      fail_model(i, "the device worker died while loading it, twice");
    } else if (model.at == ModelState::At::Loading || model.at == ModelState::At::Ready) {
      model.at = ModelState::At::Available;
    }
  }
  restart_sketches(std::nullopt);
  if (const Duration delay = restart_delay(device_restart_); delay.count() > 0) {
    device_restart_.retry_at = now() + delay;
  } else {
    start_device();
  }
}

void LoopCore::check_device_hang() {
  if (sent_runs_.empty() || !device_) return;
  const SentRun& run = sent_runs_.front();
  const Duration limit = models_[run.model].watch.limit(run.tokens);
  if (now() < run.since + limit) return;
  device_->kill();
  device_lost(
      fmt::format("a step of {} tokens took longer than {} s", run.tokens, in_seconds(limit)));
}

void LoopCore::load_model(std::uint32_t index) {
  ModelState& model = models_[index];
  if (model.at != ModelState::At::Available) return;
  model.load_wanted = true;
  if (!device_) return;
  model.load_wanted = false;
  model.at = ModelState::At::Loading;
  models_changed_ = true;
  if (model.info.can.pictures) {
    to_device(worker::Load{{.model = ModelId{index}, .path = model.entry.path, .pictures = true}});
    return;
  }
  const sched::Options& s = options_.scheduler;
  recall_cost(model);
  // Twice the running jobs: the other half holds prefixes of ended ones.
  to_device(worker::Load{{.model = ModelId{index},
                          .path = model.entry.path,
                          .adapter = model.entry.adapter,
                          .adapter_scale = model.entry.adapter_scale,
                          .context = model.context,
                          .pool_tokens = pool_tokens_for(model),
                          .sequences = std::min(255U, s.running_max * 2),
                          .outputs = s.running_max,
                          .batch_tokens = batch_tokens(model),
                          .measure_steps = !model.cost,
                          .embeds = model.embeds}});
}

// The table of a model that was loaded before: the same file, as far as its size and time tell, on
// the same device.
void LoopCore::recall_cost(ModelState& model) {
  if (model.cost) return;
  struct stat info {};
  if (::stat(model.entry.path.c_str(), &info) != 0) return;
  // "2": tables of a form before told decodes and prompts not apart.
  model.cost_key = fmt::format("{:016x}-{}-2",
                               hash_combine(static_cast<std::uint64_t>(info.st_size),
                                            static_cast<std::uint64_t>(info.st_mtime)),
                               options_.device_name);
  if (!model.entry.adapter.empty())
    model.cost_key += fmt::format("-{:08x}", hash_text(model.entry.adapter) >> 32U);
  if (model.embeds) model.cost_key += "-embed";  // Its steps are others: every row is kept.
  const auto known = options_.costs.find(model.cost_key);
  if (known == options_.costs.end()) return;
  if (auto table = sched::CostTable::parse(known->second)) model.cost = *table;
}

void LoopCore::learn_cost(ModelState& model, const std::vector<engine::StepTime>& times) {
  std::vector<sched::CostTable::Probe> steps;
  for (const engine::StepTime& step : times) {
    sched::CostTable::Probe probe{.took = step.time};
    for (std::uint32_t d = 0; d < step.decodes; ++d) probe.shape.add(step.position, 1);
    if (step.prompt > 0) probe.shape.add(step.from, step.prompt);
    steps.push_back(probe);
  }
  if (auto table = sched::CostTable::fit(steps)) {
    model.cost = *table;
    if (options_.save_cost) options_.save_cost(model.cost_key, table->to_text());
  }
}

// What the scheduler has learnt since.
void LoopCore::keep_costs() {
  for (std::uint32_t i = 0; i < models_.size(); ++i) {
    const sched::CostTable* table = scheduler_.cost(ModelId{i});
    if (table == nullptr || models_[i].cost_key.empty()) continue;
    models_[i].cost = sched::CostTable::parse(table->to_text()).value_or(*table);
    if (options_.save_cost) options_.save_cost(models_[i].cost_key, table->to_text());
  }
}

std::uint32_t LoopCore::batch_tokens(const ModelState& model) const {
  const std::uint32_t step = options_.scheduler.step_tokens;
  // A whole text is computed with its last chunk, however it was cut.
  if (!model.embeds || model.info.can.whole_text) return step;
  return std::min(step, engine::kEmbedBatchTokens);
}

void LoopCore::fail_model(std::uint32_t index, std::string why) {
  ModelState& model = models_[index];
  log_warn("model cannot be used", {{"model", model.entry.name}, {"why", why}});
  model.at = ModelState::At::Failed;
  model.error = std::move(why);
  model.load_wanted = false;
  models_changed_ = true;
  events_.emplace_back(sched::ModelFailed{ModelId{index}});
}

void LoopCore::handle(worker::LoadDone message) {
  const engine::Loaded& loaded = message.loaded;
  const std::uint32_t index = loaded.model.value;
  if (index >= models_.size() || models_[index].at != ModelState::At::Loading) return;
  ModelState& model = models_[index];
  model.at = ModelState::At::Ready;
  model.load_crashes = 0;
  ++model.loads;
  const bool pictures = model.info.can.pictures;
  if (!pictures) model.info = loaded.info;  // Else the probe knows more.
  model.info.weights = loaded.weights;      // As placed: repacked copies count.
  model.need = loaded.kv + loaded.compute;
  model.reload = loaded.took;
  model.measured = true;
  model.pool_tokens = loaded.pool_tokens;
  model.seq_owner.assign(loaded.sequences, JobId{});
  models_changed_ = true;
  log_info("model ready", {{"model", model.entry.name},
                           {"pool_tokens", model.pool_tokens},
                           {"ms", loaded.took.count() / 1000000}});
  if (!model.cost && !pictures) learn_cost(model, loaded.step_times);
  to_device(worker::AskMemory{});
  if (pictures) {
    events_.emplace_back(sched::ModelReady{ModelId{index},
                                           kDevice,
                                           {.sequences = engine::kPassMax,
                                            .batch_tokens = engine::kPassMax,
                                            .cut_anywhere = false,
                                            .graphs = true},
                                           {}});
  } else {
    events_.emplace_back(sched::ModelReady{ModelId{index},
                                           kDevice,
                                           {.pool_tokens = loaded.pool_tokens,
                                            .context = model.context,
                                            .sequences = loaded.sequences,
                                            .batch_tokens = batch_tokens(model),
                                            .cut_anywhere = loaded.info.can.cut_anywhere,
                                            .kv_per_token = state_bytes_per_token(loaded)},
                                           model.cost.value_or(sched::CostTable())});
  }
  tell_need(index);
  for (auto& [id, request] : requests_) {
    const bool waited =
        request.model == index && !request.model_ready_at && request.at == Request::At::Scheduled;
    if (waited && !request.first_run_at) request.model_ready_at = now();
  }
}

void LoopCore::handle(worker::RunDone message) {
  const engine::Ran& ran = message.ran;
  const bool expected =
      !sent_runs_.empty() && sent_runs_.front().run == ran.run &&
      (!sent_runs_.front().pass.empty() || sent_runs_.front().items.size() == ran.items.size());
  if (!expected) return device_lost("it answered a run that was not sent");
  const SentRun sent = std::move(sent_runs_.front());
  sent_runs_.pop_front();
  if (!sent_runs_.empty()) sent_runs_.front().since = now();
  device_clock_.done(now(), ran.device);
  device_restart_.quick_deaths = 0;  // It did some work: its next death is not a broken start.
  models_[sent.model].watch.observe(sent.tokens, ran.device);
  metrics_.step_seconds.observe(in_seconds(ran.device));
  if (ran.idle.count() > 0) metrics_.idle_seconds.observe(in_seconds(ran.idle));
  metrics_.sampling_seconds.observe(in_seconds(ran.sampling));

  if (options_.timeline)
    options_.timeline->stepped(models_[sent.model].entry.name, now(), ran.device, sent.tokens);
  if (!sent.pass.empty()) return pass_done(sent, ran);
  auto& done = event_items_.emplace_back();
  for (std::size_t i = 0; i < ran.items.size(); ++i) {
    const engine::ItemResult& item = ran.items[i];
    const bool sampled =
        item.state == engine::ItemState::Sampled || item.state == engine::ItemState::Ended;
    done.push_back({sent.items[i].job, std::min(item.tokens, sent.items[i].tokens), sampled});
  }
  events_.emplace_back(sched::Stepped{kDevice, ran.run, ran.device, done});
  for (std::size_t i = 0; i < ran.items.size(); ++i) on_item(ran.items[i], sent.items[i]);
}

void LoopCore::on_item(const engine::ItemResult& item, const sched::StepItem& sent) {
  const auto choice = choices_.find(sent.job);
  if (choice == choices_.end()) return;  // Ended while this was computed.
  const auto [id, index] = choice->second;
  Request& request = requests_.at(id);
  if (item.state == engine::ItemState::Embedded) return on_embedding(request, index, item);
  if (item.state == engine::ItemState::Sampled || item.state == engine::ItemState::Ended) {
    on_token(request, index, item);
  }
}

void LoopCore::on_token(Request& request, std::uint32_t index, const engine::ItemResult& item) {
  const ModelState& model = models_[request.model];
  if (!model.pieces->has(item.token)) return device_lost("it sampled a token that does not exist");
  Choice& choice = request.choices[index];
  choice.tokens.push_back(item.token);
  ++request.usage.output_tokens;
  request.last_token_at = now();
  if (!request.first_token_at) request.first_token_at = request.last_token_at;

  TokenLogprob logprob;
  const bool wanted = request.generation.sampling.want_logprob;
  if (wanted) {
    logprob.token = {std::string(model.pieces->piece(item.token)), item.logprob};
    for (const engine::TopToken& top : item.top) {
      if (model.pieces->has(top.token)) {
        logprob.top.push_back({std::string(model.pieces->piece(top.token)), top.logprob});
      }
    }
  }
  const std::string_view piece = shown_piece(request, item.token);
  const auto made = static_cast<std::uint32_t>(choice.tokens.size()) - request.prompt_tokens;
  if (item.state == engine::ItemState::Ended) {
    choice.text.finish();
    finish_choice(request, index, Finish::Stop, sched::EndCause::Finished);
  } else if (choice.text.push(piece, wanted ? &logprob : nullptr)) {
    finish_choice(request, index, Finish::Stop, sched::EndCause::Finished);
  } else if (made == request.output_max) {
    choice.text.finish();
    finish_choice(request, index, Finish::Length, sched::EndCause::Finished);
  } else {
    note_output(request);
    if (choice.text.has_output()) tell_text(request, index, choice.text.take());
  }
}

void LoopCore::handle(const worker::RunFailed& message) {
  // The ledger said it would fit, so the two disagree: only a fresh worker makes them agree again.
  device_lost(fmt::format("a step failed: {}", message.failed.error.message));
}

void LoopCore::handle(const worker::OpenFailed& message) {
  if (message.model.value >= models_.size()) return;
  const auto& owners = models_[message.model.value].seq_owner;
  if (message.seq.value >= owners.size()) return;
  const auto choice = choices_.find(owners[message.seq.value]);
  if (choice == choices_.end()) return;
  fail_request(choice->second.first, message.error, "engine_refused");
}

void LoopCore::perform(const sched::Decision& decision) {
  for (const sched::Action& action : decision.actions) {
    std::visit([this](const auto& a) { perform(a); }, action);
  }
}

void LoopCore::perform(const sched::OpenSequence& action) {
  const auto owner = choices_.find(action.job);
  if (owner == choices_.end()) return;  // A sibling's refusal ended it in this same decision.
  const auto [id, index] = owner->second;
  Request& request = requests_.at(id);
  if (request.sketch) return open_work(request, action);
  Choice& choice = request.choices[index];
  choice.seq = action.seq;
  models_[action.model.value].seq_owner[action.seq.value] = action.job;
  if (!request.first_run_at) {
    request.first_run_at = now();
    waits_no_more(request);
    request.usage.cached_tokens = std::min(action.from_tokens, request.prompt_tokens);
  }
  accept(request);
  engine::Open open{.model = action.model,
                    .seq = action.seq,
                    .tokens = choice.tokens,
                    .prompt_tokens = request.embeds()
                                         ? static_cast<std::uint32_t>(choice.tokens.size())
                                         : request.prompt_tokens,
                    .sampling = choice.sampling,
                    .constraint = request.constraint};
  if (action.from_tokens > 0) {
    open.from = action.from;
    open.from_tokens = action.from_tokens;
  }
  to_device(worker::Open{std::move(open)});
}

void LoopCore::perform(const sched::RunStep& action) {
  const std::span<const sched::StepItem> items =
      std::span(decision_.items).subspan(action.first, action.count);
  engine::Run run{.run = action.run, .model = action.model};
  SentRun sent{.run = action.run, .model = action.model.value, .since = now()};
  if (models_[sent.model].info.can.pictures) {
    sent.items.assign(items.begin(), items.end());
    return send_pass(action, std::move(sent));
  }
  for (const sched::StepItem& item : items) {
    run.items.push_back({item.seq, item.tokens});
    sent.tokens += item.tokens;
  }
  sent.items.assign(items.begin(), items.end());
  to_device(worker::Run{std::move(run)});
  device_clock_.sent(now());
  sent_runs_.push_back(std::move(sent));
}

void LoopCore::perform(const sched::DropSequence& action) {
  models_[action.model.value].seq_owner[action.seq.value] = JobId{};
  to_device(worker::Drop{action.model, action.seq});
}

void LoopCore::perform(const sched::Reject& action) {
  const auto choice = choices_.find(action.job);
  if (choice == choices_.end()) return;  // A sibling's refusal ended the request already.
  Request& request = requests_.at(choice->second.first);
  const ModelState& model = models_[request.model];
  const bool full =
      action.reason == sched::Reason::QueueFull || action.reason == sched::Reason::MemberQueueFull;
  if (full && text_waits(request, action.job)) return;
  switch (action.reason) {
    case sched::Reason::QueueFull:
      return fail_request(
          request.id,
          Error{Code::Busy, fmt::format("{} jobs wait or run already, the most that are "
                                        "taken; try again in a moment",
                                        options_.scheduler.jobs_max)},
          "queue_full");
    case sched::Reason::MemberQueueFull:
      return fail_request(request.id,
                          Error{Code::Busy, fmt::format("{} has as many requests waiting as its "
                                                        "limit allows; try again in a moment",
                                                        request.generation.member.name)},
                          "member_queue_full");
    case sched::Reason::ModelFailed:
      return fail_request(request.id,
                          Error{Code::Unavailable, fmt::format("model {} cannot be used: {}",
                                                               model.entry.name, model.error)},
                          "model_failed");
    case sched::Reason::NeverFits:
      // Its length was a guess made before the pool's size was known.
      if (!request.embeds() && !request.generation.max_tokens &&
          request.prompt_tokens + sched::kBlockTokens <= model.pool_tokens) {
        for (const Choice& c : request.choices) choices_.erase(c.sched);
        return schedule(request);
      }
      return fail_request(request.id, Error{Code::Invalid, too_long_for_pool(request)},
                          "kv_never_fits");
    case sched::Reason::FailedRepeatedly:
      return fail_request(request.id,
                          Error{Code::Io,
                                "the device worker died each time it worked on this request, so "
                                "it is not tried again"},
                          "failed_repeatedly");
  }
}

void LoopCore::to_device(const worker::Message& message) {
  // What cannot be sent went with the worker; reading the channel's end brings its restart about.
  if (device_) [[maybe_unused]]
    const auto sent = device_->channel().send(message);
}

}  // namespace lares::server
