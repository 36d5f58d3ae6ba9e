#include "app/bench_command.h"

#include <sys/signalfd.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "app/bench_load.h"
#include "app/bench_report.h"
#include "app/bench_run.h"
#include "app/chat_client.h"
#include "app/config.h"
#include "app/run_verb.h"
#include "core/text.h"
#include "store/folder_lock.h"
#include "store/usage_view.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares bench [--scenario A,B | --from-usage DAYS] [FLAGS]\n"
    "\n"
    "  Asks a server what a household asks it, and says what each member felt: first tokens, gaps\n"
    "  between pieces of text, whole answers (seconds), tokens, and service (1 x prompt + 2 x\n"
    "  output tokens) a second with Jain's index over members. Ctrl-C prints what is there.\n"
    "\n"
    "  --scenario A,B     evening, noisy, overload, long-doc, alone, shared-prefix, or all of "
    "them\n"
    "                     with `all`; one after the other. Default evening.\n"
    "  --from-usage DAYS  What this household itself asked in its last DAYS days, from the "
    "ledger:\n"
    "                     when, which class, how many tokens; members are letters, words made up.\n"
    "                     Pressed into --seconds, at most 2000 requests.\n"
    "  --seconds N        Requests are sent so long; default 30, at most 3600.\n"
    "  --drain N          And waited for so long afterwards; default 60.\n"
    "  --url URL          Any server with POST /v1/chat/completions, as http://HOST:PORT. Default\n"
    "                     the Lares of the data folder, or http://127.0.0.1:8080.\n"
    "  --model NAME       Default: of a Lares its own default, else the first that --url lists.\n"
    "  --key MEMBER=KEY   Whose key a member of the scenario uses; repeat it. The others use\n"
    "                     $LARES_KEY.\n"
    "  --seed N           Of words and arrivals; default 1.\n"
    "  --json OUT         The figures.\n"
    "  --svg OUT          Pieces delivered over time, a line a member.\n"
    "  --data DIR         Default $XDG_DATA_HOME/lares or ~/.local/share/lares.\n";

constexpr std::array<std::string_view, 12> kFlags{
    "--scenario", "--from-usage", "--seconds", "--drain", "--url",  "--model",
    "--key",      "--seed",       "--json",    "--svg",   "--data", "--help"};
constexpr std::uint32_t kUsageRequestsMax = 2000, kUsageRowsMax = 200'000;
constexpr int kInterrupted = 130;

struct Options {
  std::string scenario, url, model, json, svg;
  std::string data = default_data_folder();
  std::map<std::string, std::string> keys;
  std::uint32_t seconds = 30, drain = 60, usage_days = 0;
  std::uint32_t seed = 1;
  bool help = false;
};

Result<std::uint32_t> number(std::string_view flag, std::string_view text, std::uint32_t least,
                             std::uint32_t most) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < least || n > most)
    return fail(Code::Invalid,
                fmt::format("{} is `{}`; it must be {} to {}", flag, text, least, most));
  return n;
}

Result<> set_flag(Options& options, std::string_view flag, const std::string& value) {
  if (flag == "--seconds") {
    options.seconds = TRY(number(flag, value, 1, 3600));
  } else if (flag == "--drain") {
    options.drain = TRY(number(flag, value, 0, 3600));
  } else if (flag == "--from-usage") {
    options.usage_days = TRY(number(flag, value, 1, 3660));
  } else if (flag == "--seed") {
    options.seed = TRY(number(flag, value, 0, UINT32_MAX));
  } else if (flag == "--key") {
    const std::size_t equals = value.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == value.size())
      return fail(Code::Invalid, "--key is MEMBER=KEY, such as --key ana=lares-...");
    options.keys[value.substr(0, equals)] = value.substr(equals + 1);
  } else {
    (flag == "--scenario" ? options.scenario
     : flag == "--url"    ? options.url
     : flag == "--model"  ? options.model
     : flag == "--json"   ? options.json
     : flag == "--svg"    ? options.svg
                          : options.data) = value;
  }
  return {};
}

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    if (name == "--help" || name == "-h") {
      options.help = true;
      continue;
    }
    if (std::ranges::find(kFlags, name) == kFlags.end())
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", name, suggestion(name, kFlags)));
    if (equals == std::string::npos && i + 1 == arguments.size())
      return fail(Code::Invalid, name + " needs a value after it");
    TRY_VOID(
        set_flag(options, name,
                 equals == std::string::npos ? arguments[++i] : arguments[i].substr(equals + 1)));
  }
  if (options.usage_days > 0 && !options.scenario.empty())
    return fail(Code::Invalid, "say either --scenario or --from-usage");
  return options;
}

Result<std::vector<Scenario>> chosen(std::string_view list) {
  std::vector<std::string_view> names;
  for (const Scenario& scenario : household_scenarios()) names.push_back(scenario.name);
  const auto all = household_scenarios();
  if (list == "all") return std::vector<Scenario>(all.begin(), all.end());
  std::vector<Scenario> scenarios;
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    list.remove_prefix(std::min(name.size() + 1, list.size()));
    const Scenario* found = find_scenario(name);
    if (found == nullptr)
      return fail(Code::Invalid, fmt::format("there is no scenario `{}`; there are {}.{}", name,
                                             fmt::join(names, ", "), suggestion(name, names)));
    scenarios.push_back(*found);
  }
  return scenarios;
}

// Keys of members that nobody plays would be left out in silence.
Result<> check_keys(const Options& options, const std::vector<Scenario>& scenarios) {
  for (const auto& [member, key] : options.keys) {
    const bool plays = options.usage_days > 0 || std::ranges::any_of(scenarios, [&](const auto& s) {
                         return std::ranges::any_of(
                             s.streams, [&](const Stream& st) { return st.ask.member == member; });
                       });
    if (!plays)
      return fail(Code::Invalid, fmt::format("--key: nobody is called {} in there", member));
  }
  return {};
}

Result<std::vector<TimedAsk>> asks_of_ledger(const Options& options) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const auto since = now - std::chrono::days(options.usage_days);
  auto view = TRY(store::UsageView::open(options.data));
  const auto rows = TRY(view.accepted_since(since.count(), kUsageRowsMax));
  auto asks = asks_of_usage(rows, std::chrono::seconds(options.seconds), kUsageRequestsMax);
  if (asks.empty())
    return fail(Code::NotFound, fmt::format("the ledger in {} has no text of the last {} days",
                                            options.data, options.usage_days));
  fmt::print("{} requests of the last {} days in {} s\n\n", asks.size(), options.usage_days,
             options.seconds);
  return asks;
}

// Without the path that clients are used to end an address with.
std::string server_part(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  return url;
}

Result<BenchTarget> target_of(const Options& options, const std::string& url) {
  BenchTarget target{.model = options.model, .keys = options.keys};
  if (url.starts_with("https://"))
    return fail(Code::Invalid, "--url: TLS is not spoken here; name a server by http://HOST:PORT");
  target.server = TRY(parse_server_address(server_part(url)));
  if (const char* key = std::getenv("LARES_KEY")) target.key = key;
  if (!options.url.empty() && options.model.empty()) {
    const std::string& key = target.keys.empty() ? target.key : target.keys.begin()->second;
    const auto models = TRY(ChatClient(target.server, key, "", -1).models());
    // A Lares has models of other kinds beside; it knows its default itself.
    if (models.size() == 1) target.model = models.front();
  }
  return target;
}

Result<> write_file(const std::string& path, std::string_view text) {
  if (path.empty()) return {};
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return fail(Code::Io, fmt::format("{} cannot be written", path));
  return {};
}

// Signals that end it, as a file descriptor.
int signals_fd() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

Result<std::vector<BenchRun>> measure(const Options& options, const BenchTarget& target) {
  const BenchLimits limits{.drain = std::chrono::seconds(options.drain)};
  const Duration length = std::chrono::seconds(options.seconds);
  const int signals = signals_fd();
  std::vector<std::pair<std::string, Load>> loads;
  if (options.usage_days > 0) {
    loads.emplace_back("from usage", Load(TRY(asks_of_ledger(options)), length));
  } else {
    const auto scenarios = TRY(chosen(options.scenario.empty() ? "evening" : options.scenario));
    TRY_VOID(check_keys(options, scenarios));
    for (const Scenario& scenario : scenarios)
      loads.emplace_back(scenario.name, Load(scenario, length, options.seed));
  }
  std::vector<BenchRun> runs;
  for (auto& [name, load] : loads) {
    BenchRun run = TRY(run_bench(target, limits, load, options.seed, signals));
    run.scenario = name;
    fmt::print("{}\n", bench_table(run, summarise(run)));
    std::fflush(stdout);
    runs.push_back(std::move(run));
    if (runs.back().interrupted) break;
  }
  return runs;
}

Result<int> run(const Options& options) {
  std::string url = options.url;
  if (url.empty()) url = store::server_of(options.data).value_or("http://127.0.0.1:8080");
  const BenchTarget target = TRY(target_of(options, url));
  const auto runs = TRY(measure(options, target));
  fmt::print("{}", bench_markdown(runs));
  TRY_VOID(write_file(options.json, bench_json(runs, url, options.seed)));
  TRY_VOID(write_file(options.svg, bench_svg(runs)));
  if (runs.back().interrupted) return kInterrupted;
  const bool any = std::ranges::any_of(runs, [](const BenchRun& r) {
    return std::ranges::any_of(r.records, [](const BenchRecord& b) { return b.done.has_value(); });
  });
  return any ? 0 : 1;
}

}  // namespace

int run_bench_command(std::span<const std::string> arguments) {
  return run_verb("bench", kHelp, parse(arguments), run, Code::Invalid);
}

}  // namespace lares::app
