// Sketches on the loop: each piece of work is a job of the scheduler, and a prepared handle of the
// device worker from the moment its first pass may begin. A worker that dies, or a model that
// leaves, takes what was made with it: the sketch begins again.
#include <algorithm>

#include <fmt/format.h>

#include "core/hash.h"
#include "core/log.h"
#include "core/text.h"
#include "server/job_link.h"
#include "server/loop_core.h"
#include "server/sketch_catalogue.h"
#include "server/sketch_text.h"

namespace lares::server {
namespace {

constexpr DeviceId kDevice{0};
constexpr std::uint32_t kDeathsMax = 3;
constexpr Duration kPreviewEvery = std::chrono::milliseconds(250);
constexpr Bytes kHeldGuess{64 << 10};  // Until the worker has said.
constexpr Duration kNoteEvery = std::chrono::seconds(1);
constexpr std::size_t kCostsMost = 256;

// Of a job: that its attempt brings something, and what it has taken.
void note(Request& request, Instant now) {
  SketchState& state = *request.sketch;
  if (!request.generation.job || (state.noted_at && now < *state.noted_at + kNoteEvery)) return;
  state.noted_at = now;
  request.generation.job->on_progress({.device = request.device, .advanced = true});
}

}  // namespace

// What one sketch does to the loop.
class LoopCore::SketchLink final : public SketchHost {
 public:
  SketchLink(LoopCore& loop, JobId request) : loop_(loop), request_(request) {}

  engine::Handle new_handle() override {
    const engine::Handle handle{++loop_.next_handle_};
    loop_.handle_owner_[handle] = request_;
    return handle;
  }

  std::uint64_t new_seed() override {
    // As clients can write it. A job's picture is the same in each of its attempts.
    if (const auto& job = loop_.requests_.at(request_).generation.job)
      return mix64(hash_combine(hash_text(job->id()), ++seeds_)) >> 33U;
    return (loop_.seed_state_ = mix64(loop_.seed_state_ + request_.value)) >> 33U;
  }

  void begin(SketchWork work) override {
    Request& request = loop_.requests_.at(request_);
    if (work.passes > 0) return loop_.schedule_work(request, std::move(work));
    const ModelId model = model_of(work.model);
    worker::Prepare prepare{{model, work.handle, std::move(work.work)}};
    if (loop_.models_[model.value].at == ModelState::At::Ready) return loop_.to_device(prepare);
    request.sketch->deferred.push_back(std::move(prepare));
  }

  void finished(std::uint32_t unit) override {
    SketchState& state = sketch();
    const auto job = state.jobs.find(unit);
    if (job == state.jobs.end()) return;
    loop_.choices_.erase(job->second);
    loop_.done_choices_[job->second] = request_;
    loop_.events_.emplace_back(sched::Ended{job->second, sched::EndCause::Finished, {}});
    state.work.erase(job->second);
    state.jobs.erase(job);
  }

  void fetch(const std::string& model, engine::Handle handle) override {
    loop_.to_device(worker::Deliver{{model_of(model), handle, engine::Deliverable::Pixels}});
  }

  void ask(SketchAsk ask) override {
    Generation generation = generation_for(ask);
    loop_.submit_for(loop_.requests_.at(request_), std::move(generation), {ask.unit});
  }

  void embed(SketchEmbed embed) override {
    Generation generation = generation_for(embed);
    loop_.submit_for(loop_.requests_.at(request_), std::move(generation), std::move(embed.units));
  }

  void fetch_latent(const std::string& model, engine::Handle handle) override {
    loop_.to_device(worker::Deliver{{model_of(model), handle, engine::Deliverable::Latent}});
  }

  void forget(const std::string& model, engine::Handle handle) override {
    std::erase_if(sketch().deferred,
                  [&](const worker::Prepare& p) { return p.prepare.handle == handle; });
    loop_.handle_owner_.erase(handle);
    loop_.to_device(worker::Discard{model_of(model), handle});
  }

  std::optional<engine::Handle> cached(const std::string& model, const std::string& key) override {
    return loop_.pictures_.take({model_of(model).value, key});
  }

  bool keep(const std::string& model, const std::string& key, engine::Handle handle,
            std::uint32_t passes) override {
    const auto known = sketch().held.find(handle);
    const Bytes bytes = known == sketch().held.end() ? kHeldGuess : known->second;
    if (!loop_.pictures_.keep({model_of(model).value, key}, handle, bytes, passes)) return false;
    loop_.models_changed_ = true;
    loop_.handle_owner_.erase(handle);
    return true;
  }

  void let_go(const std::string& model, const std::string& key) override {
    loop_.pictures_.let_go({model_of(model).value, key});
  }

  void put(SketchOutput output) override {
    loop_.tell(loop_.requests_.at(request_), std::move(output));
  }

  void put(SketchKeep keep) override { loop_.tell(loop_.requests_.at(request_), std::move(keep)); }

 private:
  SketchState& sketch() { return *loop_.requests_.at(request_).sketch; }

  ModelId model_of(const std::string& name) { return sketch().models.at(name); }

  LoopCore& loop_;
  const JobId request_;
  std::uint64_t seeds_ = 0;  // Made up for a job.
};

// Every model of the plan, that it can be used. False if the request waits or has ended.
bool LoopCore::find_sketch_models(Request& request) {
  bool first = true;
  for (const sketch::Node& node : std::get<SketchPrompt>(request.generation.prompt).plan->nodes) {
    if (node.model.empty()) continue;
    const auto index = find_model(node.model);
    // What is asked and embedded are requests of their own, which look for their models themselves.
    if (node.op == "ask" || node.op == "embed") {
      if (first && index) request.model = *index;
      continue;
    }
    if (!index) {
      fail_request(request.id,
                   Error{Code::NotFound, fmt::format("there is no model `{}` any more. Models: {}.",
                                                     node.model, model_names())},
                   "model_not_found");
      return false;
    }
    const ModelState& model = models_[*index];
    if (model.at == ModelState::At::Failed) {
      fail_request(request.id,
                   Error{Code::Unavailable,
                         fmt::format("model {} cannot be used: {}", model.entry.name, model.error)},
                   "model_failed");
      return false;
    }
    if (model.at == ModelState::At::Probing) return false;
    if (first) request.model = *index;
    first = false;
  }
  return true;
}

void LoopCore::start_sketch(Request& request) {
  const auto& prompt = std::get<SketchPrompt>(request.generation.prompt);
  request.at = Request::At::Scheduled;
  request.scheduled_at = now();
  if (request.generation.task.value == 0) request.generation.task = TaskId{request.id.value};
  tell_limits(request.generation.member);
  accept(request);
  request.sketch = std::make_unique<SketchState>();
  for (const sketch::Node& node : prompt.plan->nodes) {
    for (const std::string& name : {node.model, node.type.model}) {
      if (!name.empty())
        request.sketch->models[name] = ModelId{find_model(name).value_or(request.model)};
    }
  }
  request.sketch->host = std::make_unique<SketchLink>(*this, request.id);
  request.sketch->run.emplace(prompt.plan, prompt.inputs,
                              fmt::format("{}", request.generation.member.id.value),
                              *request.sketch->host, prompt.latents);
  sketches_done_.push_back(request.id);  // Everything may be cached, or words alone.
  request.sketch->run->start();
}

void LoopCore::schedule_work(Request& request, SketchWork work) {
  SketchState& state = *request.sketch;
  const JobId job{++next_sched_id_};
  choices_[job] = {request.id, work.unit};
  state.jobs[work.unit] = job;
  state.all_jobs.push_back(job);
  events_.emplace_back(
      sched::Submitted{.job = job,
                       .member = request.generation.member.id,
                       .cls = ClassId{request.cls},
                       .task = request.generation.task,
                       .model = state.models.at(work.model),
                       .prompt = work.passes,
                       .output_max = 0,
                       .blocks = {},
                       .batch_key = work.batch_key.empty() ? 0 : hash_text(work.batch_key)});
  state.work[job] = {.work = std::move(work)};
}

// Its turn has come: the worker makes room for it.
void LoopCore::open_work(Request& request, const sched::OpenSequence& action) {
  const auto found = request.sketch->work.find(action.job);
  if (found == request.sketch->work.end()) return;
  if (!request.first_run_at) {
    request.first_run_at = now();
    waits_no_more(request);
  }
  SketchJob& job = found->second;
  if (job.prepared) return;
  job.prepared = true;
  std::vector<worker::Prepare>& deferred = request.sketch->deferred;
  for (const worker::Prepare& prepare : deferred) {
    if (prepare.prepare.model == action.model) to_device(prepare);
  }
  std::erase_if(deferred, [&](const auto& p) { return p.prepare.model == action.model; });
  to_device(worker::Prepare{{action.model, job.work.handle, std::move(job.work.work)}});
}

void LoopCore::send_pass(const sched::RunStep& action, SentRun sent) {
  engine::Run run{.run = action.run, .model = action.model, .slice = action.slice};
  for (const sched::StepItem& item : sent.items) {
    engine::Handle handle{};  // Of what has ended since: nobody's.
    if (const auto owner = choices_.find(item.job); owner != choices_.end())
      handle = requests_.at(owner->second.first).sketch->run->handle_of(owner->second.second);
    run.pass.push_back(handle);
  }
  sent.tokens = 1;
  sent.pass = run.pass;
  to_device(worker::Run{std::move(run)});
  device_clock_.sent(now());
  sent_runs_.push_back(std::move(sent));
}

void LoopCore::pass_done(const SentRun& sent, const engine::Ran& ran) {
  ModelState& model = models_[sent.model];
  model.pass_spent += ran.device;
  auto& done = event_items_.emplace_back();
  std::vector<std::pair<JobId, std::uint32_t>> stepped;  // The scheduler's job, and passes done.
  for (std::size_t i = 0; i < sent.items.size(); ++i) {
    const auto step = std::ranges::find(ran.stepped, sent.pass[i], &engine::PassStep::handle);
    const bool over = step != ran.stepped.end();
    done.push_back({sent.items[i].job, over ? 1U : 0U, false});
    if (over) stepped.emplace_back(sent.items[i].job, step->steps_done);
  }
  events_.emplace_back(sched::Stepped{kDevice, ran.run, ran.device, done, ran.pass_done});
  for (const auto& [job, passes] : stepped) {
    const auto owner = choices_.find(job);
    if (owner == choices_.end()) continue;
    const auto [id, unit] = owner->second;
    Request& request = requests_.at(id);
    learn_pass(request, unit, sent, model);
    SketchRun& run = *request.sketch->run;
    run.on_pass(unit, passes);
    note(request, now());
    tell(request, SketchProgress{run.passes_done(), run.passes()});
    if (choices_.contains(job)) ask_preview(request, unit);
    if (run.done()) sketches_done_.push_back(id);
  }
  if (ran.pass_done) model.pass_spent = {};
}

// What a pass took, as a price for the planner.
void LoopCore::learn_pass(const Request& request, std::uint32_t unit, const SentRun& sent,
                          ModelState& model) {
  const sketch::Node& node = request.sketch->run->node_of(unit);
  sketch::Cost cost{.model = model.entry.name, .what = node.op};
  std::int64_t rows = static_cast<std::int64_t>(sent.items.size());
  if (node.op == "sample") {
    cost.what = "step";
    rows *= node.rows;
    const std::uint32_t factor = node.type.space.factor;
    cost.size = {node.type.size.width * factor, node.type.size.height * factor};
  } else if (node.op != "encode") {
    const std::uint32_t factor =
        node.type.kind == sketch::Type::Kind::Latent ? node.type.space.factor : 1;
    cost.size = {node.type.size.width * factor, node.type.size.height * factor};
  }
  cost.each = model.pass_spent / rows;
  std::vector<sketch::Cost>& costs = picture_costs_;
  const auto known = std::ranges::find_if(costs, [&](const sketch::Cost& other) {
    return other.model == cost.model && other.what == cost.what && other.size == cost.size;
  });
  if (known != costs.end()) {
    known->each += (cost.each - known->each) / 4;
    return;
  }
  if (costs.size() == kCostsMost) costs.erase(costs.begin());
  costs.push_back(std::move(cost));
  models_changed_ = true;
}

void LoopCore::ask_preview(Request& request, std::uint32_t unit) {
  SketchState& state = *request.sketch;
  if (!std::get<SketchPrompt>(request.generation.prompt).previews || state.preview_asked) return;
  const sketch::Node& node = state.run->node_of(unit);
  if (node.op != "sample") return;
  if (state.previewed_at && now() < *state.previewed_at + kPreviewEvery) return;
  state.previewed_at = now();
  state.preview_asked = true;
  to_device(worker::Deliver{
      {state.models.at(node.model), state.run->handle_of(unit), engine::Deliverable::Preview}});
}

// The scheduler hears that none of its work is wanted.
void LoopCore::end_jobs(Request& request) {
  for (const auto& [unit, job] : request.sketch->jobs) {
    choices_.erase(job);
    done_choices_[job] = request.id;
    events_.emplace_back(sched::Ended{job, sched::EndCause::Cancelled, {}});
  }
  request.sketch->jobs.clear();
  request.sketch->work.clear();
}

// What was made beside the device is gone: of all models, or of one.
void LoopCore::restart_sketches(std::optional<std::uint32_t> model) {
  model ? pictures_.drop(*model) : pictures_.clear();
  models_changed_ = true;
  for (auto& [id, request] : requests_) {
    if (!request.sketch || request.sketch->run->done()) continue;
    const auto& nodes = std::get<SketchPrompt>(request.generation.prompt).plan->nodes;
    const bool uses = !model || std::ranges::any_of(nodes, [&](const sketch::Node& node) {
      return node.model == models_[*model].entry.name && node.op != "ask" && node.op != "embed";
    });
    if (!uses) continue;
    end_jobs(request);
    std::erase_if(handle_owner_, [&](const auto& entry) { return entry.second == id; });
    request.sketch->held.clear();
    request.sketch->deferred.clear();
    request.sketch->preview_asked = false;
    if (request.sketch->deaths < kDeathsMax) request.sketch->run->restart();
    sketches_done_.push_back(id);
  }
}

// Sketches end here, and not where they are found to be done: nobody is inside them now.
void LoopCore::settle_sketches() {
  for (const JobId id : std::exchange(sketches_done_, {})) {
    const auto found = requests_.find(id);
    if (found == requests_.end() || !found->second.sketch) continue;
    Request& request = found->second;
    if (request.sketch->deaths >= kDeathsMax) {
      fail_request(id,
                   Error{Code::Io,
                         "the device worker died each time it worked on this sketch, so it is not "
                         "tried again"},
                   "failed_repeatedly");
      continue;
    }
    if (!request.sketch->run->done()) continue;
    SketchDone done{.counts = request.sketch->run->counts(),
                    .device = request.device,
                    .total = now() - request.accepted_at};
    if (request.first_run_at) done.queue_wait = *request.first_run_at - *request.scheduled_at;
    if (request.model_ready_at) done.model_load = *request.model_ready_at - *request.scheduled_at;
    tell(request, done);
    end_request(id, store::Outcome::Done, std::nullopt, "");
  }
  for (const PictureCache::Evicted& gone : pictures_.evict())
    to_device(worker::Discard{ModelId{gone.model}, gone.handle});
}

Request* LoopCore::owner_of(engine::Handle handle) {
  const auto owner = handle_owner_.find(handle);
  if (owner == handle_owner_.end()) return nullptr;
  const auto request = requests_.find(owner->second);
  return request == requests_.end() || !request->second.sketch ? nullptr : &request->second;
}

void LoopCore::handle(const worker::PrepareDone& message) {
  if (Request* request = owner_of(message.prepared.handle))
    request->sketch->held[message.prepared.handle] = message.prepared.held;
}

void LoopCore::handle(const worker::PrepareFailed& message) {
  if (Request* request = owner_of(message.handle))
    fail_request(request->id, message.error, "sketch_refused");
}

void LoopCore::handle(worker::DeliverDone message) {
  engine::Delivered& delivered = message.delivered;
  if (delivered.what == engine::Deliverable::Latent) {
    // It may be the cache's, and wanted by several: each takes what it waits for.
    for (auto& [id, request] : requests_) {
      if (!request.sketch) continue;
      request.sketch->run->on_latent(delivered.handle, delivered.latent);
      sketches_done_.push_back(id);
    }
    return;
  }
  Request* request = owner_of(delivered.handle);
  if (request == nullptr) return;
  if (delivered.what == engine::Deliverable::Preview) {
    request->sketch->preview_asked = false;
    return tell(*request, SketchPreview{std::move(delivered.picture)});
  }
  request->sketch->run->on_fetched(delivered.handle, std::move(delivered.picture));
  sketches_done_.push_back(request->id);
}

void LoopCore::handle(const worker::DeliverFailed& message) {
  Request* request = owner_of(message.handle);
  if (request == nullptr && message.what == engine::Deliverable::Latent) {
    // The cache's: whoever keeps something may wait for it, and must not wait for ever.
    std::vector<JobId> waiting;
    for (const auto& [id, other] : requests_) {
      if (!other.sketch || other.sketch->run->done()) continue;
      const auto& nodes = std::get<SketchPrompt>(other.generation.prompt).plan->nodes;
      if (std::ranges::any_of(nodes, [](const auto& node) { return node.op == "keep"; }))
        waiting.push_back(id);
    }
    for (const JobId id : waiting) fail_request(id, message.error, "engine_refused");
  }
  if (request == nullptr) return;
  // A preview that cannot be had is not worth the picture; nor is it asked for again.
  if (message.what != engine::Deliverable::Preview)
    fail_request(request->id, message.error, "engine_refused");
}

void LoopCore::publish_catalogue() {
  catalogue_snapshot_ = {};
  sketch::Catalogue& catalogue = catalogue_snapshot_.catalogue;
  for (const ModelState& model : models_) {
    if (model.embeds || model.gone) continue;
    if (model.at == ModelState::At::Probing) catalogue_snapshot_.complete = false;
    if (model.at == ModelState::At::Probing || model.at == ModelState::At::Failed) continue;
    if (!model.info.can.pictures) continue;
    catalogue.models.push_back(
        sketch_model(model.entry.name, model.info, model.at == ModelState::At::Ready));
  }
  publish_text_models();
  catalogue.costs = picture_costs_;
  for (std::string& key : pictures_.keys()) {
    // A list's elements are kept one by one; its first stands for it.
    if (key.ends_with(":0")) key.resize(key.size() - 2);
    catalogue.cached.insert(std::move(key));
  }
}

CatalogueNow LoopCore::catalogue() const {
  const std::lock_guard lock(snapshot_mutex_);
  return catalogue_snapshot_;
}

}  // namespace lares::server
