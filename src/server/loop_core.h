// The loop's inside. Included by src/server/loop*.cc alone; every member belongs to the loop thread
// except where a comment says otherwise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "server/day_usage.h"
#include "server/device_clock.h"
#include "server/loop.h"
#include "server/loop_metrics.h"
#include "server/model_state.h"
#include "server/picture_cache.h"
#include "server/request.h"

namespace lares::server {

// Streams that wait hear of changes at most so often.
inline constexpr Duration kQueueNews = std::chrono::milliseconds(250);

// A job's tokens are kept each time an attempt has made so many, and more often at its beginning.
inline constexpr std::uint32_t kTokensACheckpoint = 32;

// A run that was sent and not answered.
struct SentRun {
  RunId run;
  std::uint32_t model = 0;
  std::uint32_t tokens = 0;
  Instant since;  // When the device could begin it.
  std::vector<sched::StepItem> items{};
  std::vector<engine::Handle> pass{};  // Of an image model: of the items, in their order.
};

class LoopCore final : public Service {
 public:
  LoopCore(LoopOptions options, sched::Scheduler scheduler,
           std::shared_ptr<worker::WorkerFactory> workers, UsageSink usage, Metrics& metrics);
  ~LoopCore() override;  // Stops: running requests end as cancelled.
  Result<> start();

  // Service; any thread.
  JobId submit(Generation generation, std::shared_ptr<GenerationSink> sink) override;
  bool cancel(JobId job) override;
  void stop() override;
  void set_models(const std::vector<ModelEntry>& models) override;
  void queue(std::function<void(std::vector<QueueEntry>)> done) override;
  void memory(std::function<void(MemoryStatus)> done) override;
  [[nodiscard]] CatalogueNow catalogue() const override;
  [[nodiscard]] std::vector<ModelStatus> models() const override;
  [[nodiscard]] ServiceStatus status() const override;

 private:
  // clang-format off
  struct SubmitCommand {
    JobId id; Generation generation; std::shared_ptr<GenerationSink> sink;
    Instant at; std::int64_t unix_ms;
  };
  struct CancelCommand { JobId id; };
  struct ProbedCommand { std::uint32_t model; Result<engine::ModelInfo> info; };
  struct ModelsCommand { std::vector<ModelEntry> models; };
  struct QueueCommand { std::function<void(std::vector<QueueEntry>)> done; };
  struct MemoryCommand { std::function<void(MemoryStatus)> done; };
  struct StopCommand {}; struct SketchTextCommand { JobId sketch; SketchTexts got; };
  // clang-format on
  using Command = std::variant<SubmitCommand, CancelCommand, QueueCommand, MemoryCommand,
                               ProbedCommand, ModelsCommand, StopCommand, SketchTextCommand>;

  // A worker that keeps dying right after its start is started again ever more slowly.
  struct Restart {
    Instant started{};
    std::uint32_t quick_deaths = 0;
    std::optional<Instant> retry_at;
  };

  // loop.cc: the thread.
  void run();
  void probe_models();
  void post(Command command);  // Any thread.
  void take_commands();
  static void turn_away(SubmitCommand& command);
  void wait_for_work();
  void on(CancelCommand command);
  void on(ProbedCommand command);
  void on(ModelsCommand command);
  void on(StopCommand command);
  void decide();
  void write_event_log();
  void publish();
  void publish_models();
  Duration restart_delay(Restart& restart);
  void deliver_all();
  [[nodiscard]] Instant now() const;

  // loop_queue.cc: requests that come in, and those that wait.
  void on(SubmitCommand command);
  void on(QueueCommand command);
  void supersede(const Generation& newer);
  [[nodiscard]] std::optional<DayUsage::Over> over_quota(const Request& request) const;
  [[nodiscard]] std::vector<QueueEntry> queue_entries();
  void tell_queue();
  void waits_no_more(const Request& request);

  // loop_jobs.cc: requests that are jobs of the journal, and the device's time for its ledger.
  void resume(Request& request, std::uint32_t choice);
  [[nodiscard]] std::string_view shown_piece(const Request& request, std::int32_t token) const;
  void note_output(Request& request) const;
  void note_progress(Request& request) const;
  [[nodiscard]] std::string vocabulary_of(const Request& request) const;
  void keep_totals();

  // loop_requests.cc: a request's way to the scheduler and out again.
  void begin(Request& request);
  bool find_class(Request& request);
  void ask_text(Request& request);
  void on_tokens(Request& request, text::Rendered rendered);
  void schedule(Request& request);
  void tell_limits(const MemberShare& member);
  void accept(Request& request);
  void finish_choice(Request& request, std::uint32_t choice, Finish finish, sched::EndCause cause);
  void tell_text(Request& request, std::uint32_t choice, TextDelta delta);
  void end_request(JobId id, store::Outcome outcome, std::optional<Error> error, std::string code,
                   Duration retry_after = {});
  void fail_request(JobId id, Error error, std::string code, Duration retry_after = {});
  void tell(Request& request, GenerationEvent event);
  std::optional<std::uint32_t> find_model(const std::string& name) const;
  [[nodiscard]] std::optional<std::uint32_t> model_for(const Request& request) const;
  [[nodiscard]] std::optional<std::uint32_t> choose_of(const ModelAlias& alias,
                                                       const Request& request) const;
  [[nodiscard]] std::string model_names() const;
  [[nodiscard]] std::string failures() const;
  [[nodiscard]] std::string too_long_for_pool(const Request& request) const;

  // loop_models.cc: which models there are.
  void add_model(const ModelEntry& entry);
  void unload_gone();
  void begin_again();

  // loop_residency.cc: what models take, and which are held.
  void on(MemoryCommand command);
  void handle(const worker::Memory& message);
  void handle(const worker::LoadFailed& message);
  void perform(const sched::LoadModel& action);
  void perform(const sched::UnloadModel& action);
  void set_budget(Bytes budget);
  void guess_need(ModelState& model) const;
  void tell_need(std::uint32_t model, bool wanted = false);
  [[nodiscard]] std::uint32_t pool_tokens_for(const ModelState& model) const;
  [[nodiscard]] std::string too_large_for_device(const ModelState& model) const;
  [[nodiscard]] MemoryStatus memory_status() const;
  void answer_memory();

  // loop_embed.cc: texts to embed.
  std::optional<std::uint32_t> find_embedding_model(const std::string& name) const;
  void send_texts(Request& request, const EmbedPrompt& prompt);
  [[nodiscard]] static bool more_texts(const Request& request);
  void on_text_tokens(Request& request, std::vector<std::int32_t> tokens);
  std::optional<std::pair<Error, std::string>> check_text(const Request& request, std::size_t index,
                                                          std::vector<std::int32_t>& tokens) const;
  void schedule_texts_first(Request& request);
  void schedule_texts(Request& request);
  bool text_waits(Request& request, JobId job);
  void on_embedding(Request& request, std::uint32_t index, const engine::ItemResult& item);

  // loop_sketch.cc: sketches, whose work is passes; loop_sketch_text.cc: what they ask and embed.
  class SketchLink;
  bool find_sketch_models(Request& request);
  void submit_for(Request& sketch, Generation generation, std::vector<std::uint32_t> units);
  void on(SketchTextCommand command);
  void publish_text_models();  // The snapshot's mutex is held.
  void start_sketch(Request& request);
  void schedule_work(Request& request, SketchWork work);
  void open_work(Request& request, const sched::OpenSequence& action);
  void send_pass(const sched::RunStep& action, SentRun sent);
  void pass_done(const SentRun& sent, const engine::Ran& ran);
  void learn_pass(const Request& request, std::uint32_t unit, const SentRun& sent,
                  ModelState& model);
  void ask_preview(Request& request, std::uint32_t unit);
  void end_jobs(Request& request);
  void restart_sketches(std::optional<std::uint32_t> model);
  void settle_sketches();
  void publish_catalogue();  // The snapshot's mutex is held.
  void handle(const worker::PrepareDone& message);
  void handle(const worker::PrepareFailed& message);
  void handle(worker::DeliverDone message);
  void handle(const worker::DeliverFailed& message);
  Request* owner_of(engine::Handle handle);

  // loop_device.cc: the device worker.
  void start_device();
  void read_device();
  void device_lost(const std::string& why);
  void shrink_pools();  // If it was ended because memory ran out.
  void check_device_hang();
  void load_model(std::uint32_t model);
  void recall_cost(ModelState& model);
  void learn_cost(ModelState& model, const std::vector<engine::StepTime>& times);
  void keep_costs();
  [[nodiscard]] std::uint32_t batch_tokens(const ModelState& model) const;
  void fail_model(std::uint32_t model, std::string why);
  void handle(worker::LoadDone message);
  void handle(worker::RunDone message);
  void handle(const worker::RunFailed& message);
  void handle(const worker::OpenFailed& message);
  void handle(const worker::SaveDone& message);
  void handle(const worker::SaveFailed& message);
  void handle(const worker::RestoreFailed& message);
  void on_item(const engine::ItemResult& item, const sched::StepItem& sent);
  Request* request_of(JobId job);
  void charge(const sched::Decision& decision);
  void settle_rows();
  void keep_row(store::UsageRow row);
  void on_token(Request& request, std::uint32_t choice, const engine::ItemResult& item);
  void perform(const sched::Decision& decision);
  void perform(const sched::OpenSequence& action);
  void perform(const sched::RunStep& action);
  void perform(const sched::SaveState& action);
  void perform(const sched::RestoreState& action);
  void perform(const sched::ForgetState& action);
  void perform(const sched::DropSequence& action);
  void perform(const sched::Reject& action);
  void to_device(const worker::Message& message);

  // loop_text.cc, loop_parse.cc: the text worker.
  void start_text();
  void read_text();
  void text_lost(const std::string& why);
  void check_text_limit();
  void ask_vocabulary(std::uint32_t model);
  void send_text_request(Request& request);
  void send_text_job(const TextJob& job);
  void ask_parser(Request& request, std::uint32_t choice);
  void send_parse(Request& request, std::uint32_t choice);
  void parse_failed(Request& request, std::uint32_t choice, const Error& error);
  void give_up_parsing(Request& request, std::uint32_t choice);
  void tell_parsed(Request& request, std::uint32_t choice, const text::ParsedChat& parsed);
  std::optional<TextJob> take_text_job(std::uint64_t request);
  void handle(worker::VocabularyDone message);
  void handle(worker::TextDone message);
  void handle(const worker::ChatParsed& message);
  void handle(const worker::TextFailed& message);
  void to_text(const worker::Message& message);

  // Fixed.
  LoopOptions options_;
  std::shared_ptr<worker::WorkerFactory> workers_;
  UsageSink usage_;
  LoopMetrics metrics_;

  // Shared with other threads.
  std::mutex inbox_mutex_;
  std::vector<Command> inbox_;
  bool closed_ = false;  // The thread has ended: nothing is taken from the inbox any more.
  int wake_fd_ = -1;
  std::atomic<std::uint64_t> next_id_;
  mutable std::mutex snapshot_mutex_;
  std::vector<ModelStatus> models_snapshot_;
  CatalogueNow catalogue_snapshot_{.catalogue = {}, .complete = false};
  ServiceStatus status_snapshot_;
  std::unordered_set<JobId> known_;  // Requests taken on and not ended.

  // The loop thread's.
  sched::Scheduler scheduler_;
  std::deque<ModelState> models_;  // Only grows; an index is an id.
  std::map<JobId, Request> requests_;
  std::unordered_map<JobId, std::pair<JobId, std::uint32_t>>
      choices_;  // Scheduler's id -> request.
  // Of choices that are done, while their request goes on: their last step is charged later.
  std::unordered_map<JobId, JobId> done_choices_;
  std::uint64_t next_sched_id_ = 0;
  std::unordered_map<MemberId, MemberShare> told_limits_;
  Bytes budget_{};  // Of the device's memory, for models; 0 = not known yet.
  engine::MemoryReport memory_report_;
  std::vector<std::function<void(MemoryStatus)>> memory_asked_;
  DayUsage day_usage_;
  std::unordered_set<JobId> queue_listeners_;  // Requests that wait and want to hear of it.
  Instant queue_told_at_{};
  std::uint64_t seed_state_ = 0;
  bool stopping_ = false;
  bool models_changed_ = true;

  std::unique_ptr<worker::Worker> device_, text_;
  Restart device_restart_, text_restart_;
  std::uint64_t memory_kills_ = 0;  // When the device worker was started.
  std::deque<SentRun> sent_runs_;
  DeviceClock device_clock_;
  // Rows of requests that ended, until the last step they took part in has been charged.
  struct EndedRow {
    store::UsageRow row;
    std::vector<JobId> jobs;
  };
  std::vector<EndedRow> ended_rows_;
  std::vector<worker::Message> messages_;

  PictureCache pictures_;
  std::vector<sketch::Cost> picture_costs_;                 // As measured.
  std::unordered_map<engine::Handle, JobId> handle_owner_;  // Of work that was prepared.
  std::uint64_t next_handle_ = 0;
  std::vector<JobId> sketches_done_;  // To be ended once nobody is inside them.

  std::deque<TextJob> text_queue_;  // Sent to the text worker, in order; front is worked on.
  std::uint64_t text_number_ = 0;   // Which text worker this is: counts their starts.
  Instant text_since_{};

  std::vector<sched::Event> events_;  // For the next decision, with what their spans refer to:
  std::deque<std::vector<std::uint64_t>> event_keys_;
  std::deque<std::vector<sched::ItemDone>> event_items_;
  sched::Decision decision_;
  std::vector<std::pair<std::shared_ptr<GenerationSink>, GenerationEvent>> deliveries_;
  std::FILE* event_log_ = nullptr;
  std::string event_log_buffer_;

  // Of the prober's thread: files to be opened.
  std::mutex probe_mutex_;
  std::condition_variable probe_wake_;
  std::deque<std::pair<std::uint32_t, std::string>> probe_queue_;
  bool probes_over_ = false;
  std::thread prober_;
  std::thread thread_;
};

}  // namespace lares::server
