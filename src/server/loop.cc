#include "server/loop.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/hash.h"
#include "core/log.h"
#include "engine/embedding.h"
#include "sched/event_log.h"
#include "server/compute_first.h"
#include "server/loop_core.h"

namespace lares::server {
namespace {

constexpr std::size_t kEventLogFlush = 64U << 10U;

std::int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<Service>> start_loop(LoopOptions options,
                                            std::shared_ptr<worker::WorkerFactory> workers,
                                            UsageSink usage, Metrics& metrics) {
  // The scheduler knows the classes by their place; without targets unless it was told others.
  if (options.scheduler.classes.empty()) {
    for (const std::string& name : options.classes) {
      options.scheduler.classes.push_back(sched::ClassSpec{.name = name});
    }
  }
  auto scheduler = TRY(sched::Scheduler::create(options.scheduler));
  if (options.models.empty()) {
    return fail(Code::Invalid,
                "there is no model to serve: put a GGUF file into the models folder");
  }
  auto core = std::make_unique<LoopCore>(std::move(options), std::move(scheduler),
                                         std::move(workers), std::move(usage), metrics);
  TRY_VOID(core->start());
  return std::unique_ptr<Service>(std::move(core));
}

LoopCore::LoopCore(LoopOptions options, sched::Scheduler scheduler,
                   std::shared_ptr<worker::WorkerFactory> workers, UsageSink usage,
                   Metrics& metrics)
    : options_(std::move(options)),
      workers_(std::move(workers)),
      usage_(std::move(usage)),
      metrics_(metrics),
      scheduler_(std::move(scheduler)),
      seed_state_(options_.seed),
      pictures_(options_.picture_cache) {
  // Ids go on growing over restarts, so that a client's old id never names another's request.
  next_id_ = static_cast<std::uint64_t>(unix_ms()) * 1000;
  for (const auto& past : options_.past_use) day_usage_.add(past.member, past.unix_ms, past.use);
  for (const ModelEntry& entry : options_.models) add_model(entry);
}

Result<> LoopCore::start() {
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return fail(Code::Io, fmt::format("eventfd: {}", std::strerror(errno)));
  if (!options_.event_log.empty()) {
    event_log_ = std::fopen(options_.event_log.c_str(), "we");
    if (event_log_ == nullptr) {
      return fail(Code::Io, fmt::format("the event log {} cannot be written: {}",
                                        options_.event_log, std::strerror(errno)));
    }
    sched::append_options(event_log_buffer_, options_.scheduler);
  }
  publish();
  thread_ = std::thread([this] { run(); });
  prober_ = std::thread([this] { probe_models(); });
  return {};
}

LoopCore::~LoopCore() {
  stop();
  {
    const std::lock_guard lock(probe_mutex_);
    probes_over_ = true;
  }
  probe_wake_.notify_one();
  if (prober_.joinable()) prober_.join();
  if (event_log_ != nullptr) std::fclose(event_log_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

Instant LoopCore::now() const {
  return Instant(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

void LoopCore::run() {
  let_compute_go_first();
  device_clock_.start(now());
  if (options_.device_memory.count > 0) set_budget(options_.device_memory);
  events_.emplace_back(sched::HostMemory{DeviceId{0}, options_.host_memory});
  start_device();
  start_text();
  while (!stopping_) {
    wait_for_work();
    read_device();
    read_text();
    take_commands();
    check_device_hang();
    check_text_limit();
    unload_gone();
    if (now() >= decision_.wake_at) decide();
    do {
      settle_sketches();
      while (!events_.empty()) decide();
    } while (!sketches_done_.empty());
    settle_rows();
    tell_queue();
    publish();  // First, so that whoever hears of an end finds it in the status too.
    deliver_all();
    keep_totals();
  }
  answer_memory();
  keep_costs();
  write_event_log();
  device_.reset();
  text_.reset();
}

// One file after the other, each in a child of its own; a bad one costs nobody else.
void LoopCore::probe_models() {
  while (true) {
    std::unique_lock lock(probe_mutex_);
    probe_wake_.wait(lock, [this] { return probes_over_ || !probe_queue_.empty(); });
    if (probes_over_) return;
    const auto [model, path] = std::move(probe_queue_.front());
    probe_queue_.pop_front();
    lock.unlock();
    post(ProbedCommand{model, workers_->probe(path)});
  }
}

void LoopCore::wait_for_work() {
  std::optional<Instant> deadline;
  const auto by = [&](std::optional<Instant> at) {
    if (at && (!deadline || *at < *deadline)) deadline = at;
  };
  by(device_restart_.retry_at);
  by(text_restart_.retry_at);
  if (decision_.wake_at != Instant::max()) by(decision_.wake_at);
  if (!queue_listeners_.empty()) by(queue_told_at_ + kQueueNews);
  if (!sent_runs_.empty()) {
    const SentRun& run = sent_runs_.front();
    by(run.since + models_[run.model].watch.limit(run.tokens));
  }
  if (!text_queue_.empty() && text_) by(text_since_ + options_.text_limit);
  int timeout = -1;
  if (deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - now()).count();
    timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60000));
  }
  std::array<pollfd, 3> fds{{{wake_fd_, POLLIN, 0},
                             {device_ ? device_->channel().fd() : -1, POLLIN, 0},
                             {text_ ? text_->channel().fd() : -1, POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), timeout);
}

void LoopCore::post(Command command) {
  bool first = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    if (closed_) {
      if (auto* submitted = std::get_if<SubmitCommand>(&command)) turn_away(*submitted);
      if (auto* asked = std::get_if<QueueCommand>(&command)) asked->done({});
      if (auto* asked = std::get_if<MemoryCommand>(&command)) asked->done({});
      return;
    }
    first = inbox_.empty();
    inbox_.push_back(std::move(command));
  }
  const std::uint64_t one = 1;
  if (first) [[maybe_unused]]
    const auto written = ::write(wake_fd_, &one, sizeof one);
}

void LoopCore::take_commands() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(wake_fd_, &count, sizeof count);
  std::vector<Command> commands;
  {
    const std::lock_guard lock(inbox_mutex_);
    commands.swap(inbox_);
  }
  for (Command& command : commands) {
    std::visit([this](auto& c) { on(std::move(c)); }, command);
  }
}

JobId LoopCore::submit(Generation generation, std::shared_ptr<GenerationSink> sink) {
  const JobId id{next_id_++};
  {
    const std::lock_guard lock(snapshot_mutex_);
    known_.insert(id);
  }
  post(SubmitCommand{id, std::move(generation), std::move(sink), now(), unix_ms()});
  return id;
}

void LoopCore::queue(std::function<void(std::vector<QueueEntry>)> done) {
  post(QueueCommand{std::move(done)});
}

bool LoopCore::cancel(JobId job) {
  {
    const std::lock_guard lock(snapshot_mutex_);
    if (!known_.contains(job)) return false;
  }
  post(CancelCommand{job});
  return true;
}

void LoopCore::stop() {
  if (!thread_.joinable()) return;
  post(StopCommand{});
  thread_.join();
  const std::lock_guard lock(inbox_mutex_);
  closed_ = true;
  for (Command& command : inbox_) {
    if (auto* submitted = std::get_if<SubmitCommand>(&command)) turn_away(*submitted);
    if (auto* asked = std::get_if<QueueCommand>(&command)) asked->done({});
    if (auto* asked = std::get_if<MemoryCommand>(&command)) asked->done({});
  }
  inbox_.clear();
}

void LoopCore::turn_away(SubmitCommand& command) {
  command.sink->on_event(
      Ended{{}, Error{Code::Unavailable, "the server is stopping"}, "server_stopping"});
}

std::vector<ModelStatus> LoopCore::models() const {
  const std::lock_guard lock(snapshot_mutex_);
  return models_snapshot_;
}

ServiceStatus LoopCore::status() const {
  const std::lock_guard lock(snapshot_mutex_);
  ServiceStatus status = status_snapshot_;
  status.requests = static_cast<std::uint32_t>(known_.size());
  return status;
}

void LoopCore::on(CancelCommand command) {
  if (!requests_.contains(command.id)) return;
  end_request(command.id, store::Outcome::Cancelled,
              Error{Code::Conflict, "the request was cancelled"}, "cancelled");
}

void LoopCore::on(ProbedCommand command) {
  ModelState& model = models_[command.model];
  models_changed_ = true;
  if (!command.info) {
    fail_model(command.model, command.info.error().message);
  } else if (command.info->can.pictures) {
    model.info = *command.info;
    model.at = ModelState::At::Available;
    log_info("model found", {{"model", model.entry.name}, {"weights", model.info.weights.count}});
    tell_need(command.model, model.entry.pinned);
  } else if (!command.info->can.generates && !command.info->can.embeds) {
    model.info = *command.info;
    fail_model(command.model, "this file is not a model that generates text or embeddings");
  } else {
    model.info = *command.info;
    model.at = ModelState::At::Available;
    ModelState& twin = models_[model.twin];
    twin.info = model.info;
    twin.at = ModelState::At::Available;
    twin.context = engine::embed_context(twin.info);
    if (twin.entry.context != 0) twin.context = std::min(twin.context, twin.entry.context);
    const std::uint32_t wanted = model.entry.context;
    model.context = wanted == 0 ? model.info.context : std::min(wanted, model.info.context);
    log_info("model found", {{"model", model.entry.name},
                             {"weights", model.info.weights.count},
                             {"context", model.context}});
    // The model that a request gets when it names none is warm before anybody asks.
    const bool warm = model.entry.pinned || find_model("") == command.model;
    if (warm) ask_vocabulary(command.model);
    tell_need(command.model, warm);
    tell_need(model.twin);
  }
  begin_again();
}

void LoopCore::on(StopCommand /*command*/) {
  stopping_ = true;
  for (auto& [id, request] : requests_) note_progress(request);
  while (!requests_.empty()) {
    end_request(requests_.begin()->first, store::Outcome::Cancelled,
                Error{Code::Unavailable, "the server is stopping"}, "server_stopping");
  }
}

void LoopCore::decide() {
  const Instant at = now();
  // What performing the decision brings up belongs to the next one.
  const std::vector<sched::Event> events = std::move(events_);
  const auto keys = std::move(event_keys_);
  const auto items = std::move(event_items_);
  events_.clear();
  event_keys_.clear();
  event_items_.clear();
  scheduler_.step(at, events, decision_);
  if (event_log_ != nullptr) {
    sched::append_step(event_log_buffer_, at, events, decision_);
    if (event_log_buffer_.size() > kEventLogFlush) write_event_log();
  }
  charge(decision_);
  perform(decision_);
}

void LoopCore::write_event_log() {
  if (event_log_ == nullptr) return;
  if (std::fwrite(event_log_buffer_.data(), 1, event_log_buffer_.size(), event_log_) !=
          event_log_buffer_.size() ||
      std::fflush(event_log_) != 0) {
    log_warn("the event log cannot be written; it ends here", {{"file", options_.event_log}});
    std::fclose(event_log_);
    event_log_ = nullptr;
  }
  event_log_buffer_.clear();
}

void LoopCore::tell(Request& request, GenerationEvent event) {
  deliveries_.emplace_back(request.sink, std::move(event));
}

// After the decision has been sent off: no device waits while texts are handed out.
void LoopCore::deliver_all() {
  for (auto& [sink, event] : deliveries_) sink->on_event(std::move(event));
  deliveries_.clear();
}

void LoopCore::publish() {
  metrics_.waiting.set(scheduler_.waiting());
  metrics_.running.set(scheduler_.running());
  const auto fallback = find_model("");
  const ModelState* first = fallback ? &models_[*fallback] : nullptr;
  const std::lock_guard lock(snapshot_mutex_);
  ServiceStatus& status = status_snapshot_;
  status.waiting = scheduler_.waiting();
  status.running = scheduler_.running();
  status.device_restarts = static_cast<std::uint64_t>(metrics_.device_restarts.value());
  status.text_restarts = static_cast<std::uint64_t>(metrics_.text_restarts.value());
  status.device_pid = device_ ? device_->pid() : 0;
  status.text_pid = text_ ? text_->pid() : 0;
  status.ready = first != nullptr && first->at == ModelState::At::Ready && first->pieces;
  // Where there are models for embeddings alone, the first of them is loaded when it is asked.
  if (first == nullptr) status.ready = find_embedding_model("").has_value();
  if (!status.ready) {
    status.reason = first == nullptr ? "no model can be used"
                                     : fmt::format("model {} is {}", first->entry.name,
                                                   first->at == ModelState::At::Ready
                                                       ? "waiting for its vocabulary"
                                                       : name_of(first->at));
  } else {
    status.reason.clear();
  }
  if (std::exchange(models_changed_, false)) {
    publish_catalogue();
    publish_models();
  }
}

Duration LoopCore::restart_delay(Restart& restart) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const bool quick = now() - restart.started < seconds(5);
  restart.quick_deaths = quick ? restart.quick_deaths + 1 : 0;
  if (restart.quick_deaths < 3) return Duration(0);
  return std::min<Duration>(milliseconds(100) * (1U << std::min(restart.quick_deaths, 7U)),
                            seconds(10));
}

}  // namespace lares::server
