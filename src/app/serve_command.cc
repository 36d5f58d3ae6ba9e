#include "app/serve_command.h"

#include <sys/stat.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "app/config.h"
#include "app/doctor_command.h"
#include "app/served_models.h"
#include "app/settings.h"
#include "core/log.h"
#include "core/text.h"
#include "sched/policy.h"
#include "server/access.h"
#include "server/cost_book.h"
#include "server/http.h"
#include "server/jobs.h"
#include "server/latents.h"
#include "server/loop.h"
#include "server/member_watch.h"
#include "server/metrics.h"
#include "server/routes.h"
#include "server/telemetry.h"
#include "server/webhooks.h"
#include "server/work.h"
#include "store/folder_lock.h"
#include "store/journal.h"
#include "store/members.h"
#include "store/usage.h"
#include "worker/supervisor.h"

namespace lares::app {
namespace {

// How soon the server knows of what `lares member` did.
constexpr Duration kMembersRead = std::chrono::milliseconds(500);
// How often the models folder is looked at; a new file is served after two looks.
constexpr Duration kModelsRead = std::chrono::seconds(2);

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

Instant steady_now() {
  return Instant(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

std::uint64_t unix_seconds() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(
      duration_cast<seconds>(system_clock::now().time_since_epoch()).count());
}

std::int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::int64_t a_day_ago_ms() {
  return static_cast<std::int64_t>(unix_seconds() - 24 * 60 * 60) * 1000;
}

LogLevel level_of(std::string_view name) {
  if (name == "debug") return LogLevel::Debug;
  if (name == "warn") return LogLevel::Warn;
  if (name == "error") return LogLevel::Error;
  return LogLevel::Info;
}

server::LoopOptions loop_options(const Config& config, std::vector<server::ModelEntry> models) {
  server::LoopOptions options;
  options.scheduler = scheduler_options(config);
  options.models = std::move(models);
  options.default_model = config.default_model;
  for (const ConfiguredAlias& alias : config.aliases)
    options.aliases.push_back({alias.name, alias.models});
  options.better_classes = config.better_classes;
  options.classes = config.classes;
  options.output_tokens = config.output_tokens;
  options.prompt_bytes_max = config.prompt_bytes;
  options.text_limit = config.text_limit;
  options.event_log = config.event_log;
  options.device_memory = Bytes{static_cast<std::int64_t>(config.device_memory)};
  options.host_memory = Bytes{static_cast<std::int64_t>(config.host_memory)};
  std::random_device random;
  options.seed = (std::uint64_t{random()} << 32U) | random();
  return options;
}

// How long steps take is read from the data folder, and written there.
void keep_costs(server::LoopOptions& options, const std::string& folder) {
  const auto costs = std::make_shared<server::CostBook>(folder);
  options.costs = costs->tables();
  options.save_cost = [costs](std::string key, std::string table) {
    costs->save(std::move(key), std::move(table));
  };
}

Result<std::string> text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return fail(Code::Io, fmt::format("{} cannot be read", path.string()));
  std::string words = text.str();
  while (!words.empty() && std::isspace(static_cast<unsigned char>(words.back())) != 0)
    words.pop_back();  // An editor's last line end is no part of them.
  return words;
}

// The prompts of models.shared_prompts.
Result<std::vector<std::string>> shared_prompts(const std::string& path) {
  std::vector<std::string> prompts;
  if (path.empty()) return prompts;
  std::error_code ec;
  if (!std::filesystem::is_directory(path, ec)) {
    prompts.push_back(TRY(text_of(path)));
    return prompts;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, ec)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const auto& file : files) prompts.push_back(TRY(text_of(file)));
  return prompts;
}

server::HttpOptions http_options(const Config& config) {
  return {.address = config.address,
          .port = config.port,
          .header_bytes_max = config.header_bytes,
          .body_bytes_max = config.body_bytes,
          .bodies_bytes_max = config.bodies_bytes,
          .header_limit = config.header_time,
          .body_limit = config.body_time,
          .idle_limit = config.idle_time,
          .write_limit = config.write_time,
          .stream_buffer_max = config.stream_buffer,
          .connections_max = config.connections};
}

std::uint32_t threads_of(const Config& config) {
  return config.threads == 0 ? std::max(1U, std::thread::hardware_concurrency()) : config.threads;
}

Result<std::shared_ptr<worker::WorkerFactory>> make_workers(const Config& config,
                                                            const std::string& executable) {
  worker::ProcessOptions options;
  options.executable = executable;
  options.device_arguments = {"--threads", std::to_string(threads_of(config))};
  options.engine = config.engine;
  return std::shared_ptr<worker::WorkerFactory>(worker::process_workers(std::move(options)));
}

server::WebOptions web_options(const Config& config,
                               std::shared_ptr<const server::Timeline> timeline) {
  server::WebOptions web;
  web.timeline = std::move(timeline);
  web.version = LARES_VERSION;
  for (const Setting& setting : settings()) {
    web.settings.push_back({.key = std::string(setting.key),
                            .flag = std::string(setting.flag),
                            .value = value_text(setting, config),
                            .fallback = std::string(setting.fallback),
                            .range = range_text(setting),
                            .meaning = std::string(setting.meaning),
                            .reason = std::string(setting.reason)});
  }
  web.hours = [data =
                   config.data](std::int64_t since_unix_ms) -> Result<std::vector<store::HourUse>> {
    auto view = TRY(store::UsageView::open(data));
    return view.hours(since_unix_ms);
  };
  web.requests = [data = config.data](
                     std::optional<MemberId> of, std::int64_t before,
                     std::uint32_t limit) -> Result<std::vector<store::PastRequest>> {
    auto view = TRY(store::UsageView::open(data));
    return view.requests(of, before, limit);
  };
  return web;
}

// A stream says meanwhile how it is.
bool waits_for_its_end(const server::HttpRequest& request) {
  return !server::is_streamed(request.path, request.body);
}

// What works on the journal.
struct Journalled {
  server::Jobs& jobs;
  server::Latents& latents;
  const server::Webhooks& webhooks;
  server::TimeLimit& time_limit;
};

server::RouteOptions route_options(const Config& config, std::shared_ptr<server::Access> access,
                                   const Journalled& kept) {
  server::RouteOptions options;
  options.jobs = &kept.jobs;
  options.latents = &kept.latents;
  options.webhooks = &kept.webhooks;
  options.time_limit = &kept.time_limit;
  options.now = steady_now;
  options.unix_seconds = unix_seconds;
  options.access = std::move(access);
  options.usage = [data = config.data](
                      store::UsageBy by,
                      std::optional<MemberId> of) -> Result<std::vector<store::UsageSum>> {
    auto ledger = TRY(store::UsageLedger::open_existing(data));
    return ledger->sum(by, of);
  };
  options.defaults.json_depth = config.json_depth;
  options.defaults.sampling.temperature = static_cast<float>(config.temperature);
  options.defaults.sampling.top_k = config.top_k;
  options.defaults.sampling.top_p = static_cast<float>(config.top_p);
  options.defaults.sampling.min_p = static_cast<float>(config.min_p);
  return options;
}

// Blocks until the process is asked to stop.
void wait_for_signal(const sigset_t& signals) {
  int signal = 0;
  ::sigwait(&signals, &signal);
  log_info("stopping", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
}

// The journal of this run, and the jobs that earlier ones left.
struct OpenJournal {
  std::unique_ptr<store::Journal> journal;
  std::vector<store::JobRecord> jobs;
  std::vector<store::LatentRecord> latents;
};
Result<OpenJournal> open_journal(const std::string& folder) {
  OpenJournal open{TRY(store::Journal::open(folder)), {}, {}};
  TRY_VOID(open.journal->begin());
  open.jobs = TRY(open.journal->recover(unix_ms()));
  TRY(open.journal->begin_session(unix_ms()));
  open.latents = TRY(open.journal->latents());
  TRY_VOID(open.journal->commit());
  if (!open.jobs.empty()) log_info("jobs go on", {{"jobs", open.jobs.size()}});
  return open;
}

server::JobsOptions jobs_options(const Config& config) {
  server::JobsOptions options;
  // Half the scheduler's table: the other half is for those who wait for their answer.
  options.window.total = std::max(1U, config.jobs / 2);
  options.window.lane_max = std::clamp(options.window.total, 1U, options.window.lane_max);
  options.attempts_max = config.jobs_attempts;
  options.member_max = config.jobs_each;
  options.retention.keep = config.jobs_keep;
  options.retention.bytes_max = Bytes{static_cast<std::int64_t>(config.jobs_keep_bytes)};
  options.now = steady_now;
  options.unix_ms = unix_ms;
  return options;
}

Result<server::WebhooksOptions> webhooks_options(const Config& config) {
  server::WebhooksOptions options;
  options.secret = TRY(server::webhook_secret(config.data));
  options.private_too = config.webhooks_reach == "any";
  options.unix_ms = unix_ms;
  return options;
}

Result<std::unique_ptr<server::Traces>> make_traces(const Config& config,
                                                    server::Metrics& metrics) {
  if (!config.otlp_endpoint.empty()) {
    if (const auto url = server::parse_webhook_url(config.otlp_endpoint); !url)
      return fail(Code::Invalid, "telemetry.otlp_endpoint: " + url.error().message);
  }
  server::TracesOptions options{.endpoint = config.otlp_endpoint, .version = LARES_VERSION};
  return std::make_unique<server::Traces>(server::system_resolver(), server::socket_transport(),
                                          std::move(options), metrics);
}

// Lets what runs end; until the limit, or another signal.
void drain(const server::Service& loop, Duration limit, const sigset_t& signals) {
  constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 20'000'000};
  const Instant end = steady_now() + limit;
  while (loop.status().requests > 0 && steady_now() < end) {
    if (::sigtimedwait(&signals, nullptr, &kLook) > 0) return;
  }
}

// Ends the jobs' part before that of the loop, which they call, whatever ends the server.
class JobsEnd {
 public:
  JobsEnd(server::Jobs& jobs, server::Service& loop) : jobs_(jobs), loop_(loop) {}
  JobsEnd(const JobsEnd&) = delete;
  JobsEnd& operator=(const JobsEnd&) = delete;
  ~JobsEnd() {
    jobs_.close();
    loop_.stop();  // Every client gets its last event before the sockets close.
    jobs_.let_followers_go();
    jobs_.finish();
  }

 private:
  server::Jobs& jobs_;
  server::Service& loop_;
};

// An address that other machines reach is served only where there is somebody with a key.
Result<> check_members(const Config& config, const std::vector<store::Member>& members) {
  if (is_loopback(config.address) || !members.empty()) return {};
  return fail(
      Code::Forbidden,
      fmt::format("{} can be reached from other machines, so every request needs a key, and "
                  "there are no members with keys in {} yet. Make one with `lares member "
                  "add NAME --data {}`, or listen on 127.0.0.1",
                  config.address, config.data, config.data));
}

Result<> serve(const Config& config, const std::string& executable, const sigset_t& signals) {
  auto lock = TRY(store::FolderLock::take(config.data));
  auto member_store = TRY(store::MemberStore::open(config.data));
  const auto members = TRY(member_store.all());
  TRY_VOID(check_members(config, members));
  const auto access = std::make_shared<server::Access>(
      is_loopback(config.address) ? server::Reach::Loopback : server::Reach::Network);
  access->set_members(members);
  auto models = TRY(served_models(config));
  auto ledger = TRY(store::UsageLedger::open(config.data));
  auto past_use = TRY(ledger->used_since(a_day_ago_ms()));
  auto journal = TRY(open_journal(config.data));
  const auto writer = std::make_shared<server::JournalWriter>(std::move(journal.journal));
  server::Latents latents(writer, unix_ms);
  latents.load(std::move(journal.latents));
  server::Webhooks webhooks(writer, server::system_resolver(), server::socket_transport(),
                            TRY(webhooks_options(config)));
  server::TimeLimit time_limit(config.jobs_wait, waits_for_its_end);
  server::JobsOptions job_options = jobs_options(config);
  job_options.on_tick = [&webhooks, &time_limit] {
    webhooks.look();
    time_limit.look(steady_now());
  };
  job_options.retained = [&latents](store::Journal& kept) {
    if (auto all = kept.latents()) latents.load(std::move(*all));
  };
  server::Jobs jobs(writer, std::move(job_options));
  server::Metrics metrics;
  const auto traces = TRY(make_traces(config, metrics));
  auto workers = TRY(make_workers(config, executable));
  auto options = loop_options(config, models);
  keep_costs(options, config.data);
  options.past_use = std::move(past_use);
  options.shared_prompts = TRY(shared_prompts(config.shared_prompts));
  options.keep_totals = [&jobs](const auto& totals) { jobs.flush(totals); };
  const auto timeline = std::make_shared<server::Timeline>(steady_now());
  options.timeline = timeline;
  options.device_name = fmt::format("{}-t{}", config.engine, threads_of(config));
  auto loop = TRY(server::start_loop(
      std::move(options), std::move(workers),
      [&jobs, &traces](store::UsageRow row) {
        traces->ended(row);
        jobs.usage(std::move(row));
      },
      metrics));
  auto routes = route_options(config, access, {jobs, latents, webhooks, time_limit});
  routes.web = web_options(config, timeline);
  auto handlers = server::make_handlers(*loop, metrics, std::move(routes));
  jobs.start(
      *loop, std::move(handlers.run),
      [access](MemberId member) { return access->caller_of(member); }, journal.jobs);
  std::optional<JobsEnd> jobs_end(std::in_place, jobs, *loop);
  auto http = TRY(server::HttpServer::create(http_options(config), std::move(handlers.handle)));
  const server::MemberWatch watch(std::move(member_store), members, kMembersRead,
                                  [access](const auto& now) { access->set_members(now); });
  const ModelWatch model_watch([&config] { return served_models(config); }, models, kModelsRead,
                               [&loop](const auto& now) { loop->set_models(now); });
  const bool v6 = config.address.find(':') != std::string::npos;
  const std::string url =
      fmt::format("http://{}:{}", v6 ? "[" + config.address + "]" : config.address, http->port());
  TRY_VOID(lock.announce(url));
  fmt::print("listening on {}\n", url);
  std::fflush(stdout);
  wait_for_signal(signals);
  jobs.close();
  drain(*loop, config.drain, signals);
  jobs_end.reset();
  http.reset();  // Before the loop, which its routes call.
  return {};
}

}  // namespace

int run_serve_command(std::span<const std::string> arguments, const std::string& executable) {
  const auto config = load_config(arguments);
  if (!config) {
    fmt::print(stderr, "lares serve: {}\n", config.error().message);
    return 2;
  }
  if (config->help) {
    fmt::print("{}", settings_help());
    return 0;
  }
  set_log_level(level_of(config->log_level));
  // Blocked before any thread starts, so that only wait_for_signal takes them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // A file at its limit is an error of writing it, as a full disk is.
  const auto served = serve(*config, executable, signals);
  if (served) return 0;
  fmt::print(stderr, "lares serve: {}\n", served.error().message);
  return served.error().code == Code::Invalid || served.error().code == Code::Forbidden ? 2 : 1;
}

}  // namespace lares::app
