#include "app/simulate_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "app/config.h"
#include "app/doctor_command.h"
#include "app/scenario.h"
#include "core/text.h"
#include "sched/classes.h"
#include "sim/report.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares simulate (--trace FILE.csv | --scenario FILE.toml) [FLAGS]\n"
    "\n"
    "  Runs the scheduler that the server runs against a cost table instead of a device, and\n"
    "  prints a line a policy. Nothing is loaded and nothing waits: ten minutes take a second.\n"
    "\n"
    "  --trace FILE     Arrivals: `arrival_s,user,prompt_tokens,output_tokens` or\n"
    "                   `TIMESTAMP,ContextTokens,GeneratedTokens`. What the trace says its own\n"
    "                   server did is printed beside.\n"
    "  --scenario FILE  Arrivals made up from rates; see examples/scenarios.\n"
    "  --device NAME    a10g-llama2-7b, two-core-0.1b or this (the last model that served here);\n"
    "                   default two-core-0.1b.\n"
    "  --data DIR       Where `this` is looked up; the server's data folder.\n"
    "  --policy A,B     Default lares,vtc,orca.\n"
    "  --repeat N       The arrivals so many times over.\n"
    "  --rate PERCENT   Arrivals so dense; 200 is twice as many a second.\n"
    "  --seed N         Of made-up arrivals; default 1.\n"
    "  --set KEY=VALUE  A setting of the scheduler: slice_ms, slice_alone_ms, step_tokens, "
    "running,\n"
    "                   output_expected, admit_every, prompts_apart, reserve_tokens, cost.\n"
    "  --json OUT, --csv OUT, --svg OUT   The figures, and served cost over time.\n"
    "  --check          Assert the scheduler's invariants after every step.\n"
    "  --estimates      Ask how long each job will wait, and say how far off that was.\n";

constexpr std::array<std::string_view, 15> kFlags{
    "--trace", "--scenario", "--device", "--data", "--policy", "--repeat",    "--rate", "--seed",
    "--set",   "--json",     "--csv",    "--svg",  "--check",  "--estimates", "--help"};

using Flags = std::multimap<std::string, std::string>;

Result<Flags> parse(std::span<const std::string> arguments) {
  Flags flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    if (std::ranges::find(kFlags, name) == kFlags.end()) {
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", name, suggestion(name, kFlags)));
    }
    if (name == "--check" || name == "--help" || name == "--estimates") {
      flags.emplace(name, "");
    } else if (equals != std::string::npos) {
      flags.emplace(name, arguments[i].substr(equals + 1));
    } else if (i + 1 < arguments.size()) {
      flags.emplace(name, arguments[++i]);
    } else {
      return fail(Code::Invalid, name + " needs a value after it");
    }
  }
  return flags;
}

std::string value(const Flags& flags, const std::string& name, std::string otherwise) {
  const auto it = flags.find(name);
  return it == flags.end() ? std::move(otherwise) : it->second;
}

Result<std::uint32_t> number(std::string_view name, std::string_view text, std::uint32_t least,
                             std::uint32_t most) {
  std::uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < least || n > most) {
    return fail(Code::Invalid,
                fmt::format("{} is `{}`; it must be {} to {}", name, text, least, most));
  }
  return n;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return fail(Code::Io, fmt::format("{} cannot be read", path));
  return text.str();
}

Result<> write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return fail(Code::Io, fmt::format("{} cannot be written", path));
  return {};
}

Result<> set(std::string_view assignment, sim::SimulatedDevice& device, sched::Options& options) {
  const std::size_t equals = std::min(assignment.find('='), assignment.size());
  const std::string_view key = assignment.substr(0, equals);
  const std::string_view text = assignment.substr(std::min(equals + 1, assignment.size()));
  if (key == "cost") {
    device.cost = TRY(sched::CostTable::parse(text));
    return {};
  }
  const std::uint32_t n = TRY(number(key, text, 0, 1'000'000));
  if (key == "slice_ms") {
    options.slice = std::chrono::milliseconds(n);
  } else if (key == "slice_alone_ms") {
    options.slice_alone = std::chrono::milliseconds(n);
  } else if (key == "step_tokens") {
    options.step_tokens = n;
  } else if (key == "running") {
    options.running_max = n;
  } else if (key == "output_expected") {
    options.output_expected = n;
  } else if (key == "admit_every") {
    device.batching.admit_every = n;
  } else if (key == "prompts_apart") {
    device.batching.prompts_apart = n != 0;
  } else if (key == "reserve_tokens") {
    device.batching.reserve_tokens = n;
  } else {
    return fail(Code::Invalid, fmt::format("--set: there is no setting `{}`", key));
  }
  return {};
}

Result<sim::Trace> workload(const Flags& flags) {
  const std::string trace = value(flags, "--trace", "");
  const std::string scenario = value(flags, "--scenario", "");
  if (trace.empty() == scenario.empty())
    return fail(Code::Invalid, "say either --trace FILE.csv or --scenario FILE.toml");
  const std::uint32_t seed = TRY(number("--seed", value(flags, "--seed", "1"), 0, 1U << 30U));
  sim::Trace result;
  if (!trace.empty()) {
    result = TRY(sim::read_trace(TRY(read_file(trace)), trace));
  } else {
    result.workload = TRY(read_scenario(TRY(read_file(scenario)), scenario, seed));
  }
  const std::uint32_t rate = TRY(number("--rate", value(flags, "--rate", "100"), 1, 10000));
  const std::uint32_t repeat = TRY(number("--repeat", value(flags, "--repeat", "1"), 1, 100000));
  if (rate != 100 || repeat > 1) result.published.clear();
  if (rate != 100) result.workload = sim::with_rate(result.workload, rate * 10);
  if (repeat > 1) result.workload = sim::repeated(result.workload, repeat);
  return result;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

Result<> run(const Flags& flags) {
  const sim::Trace trace = TRY(workload(flags));
  const std::string name = value(flags, "--device", "two-core-0.1b");
  sim::SimulatedDevice device =
      name == "this" ? device_of_this_machine(value(flags, "--data", default_data_folder()))
                     : TRY(sim::find_device(name));
  sim::SimulateOptions options;
  options.check = flags.contains("--check");
  options.estimates = flags.contains("--estimates");
  options.scheduler.classes = sched::household_classes();
  if (flags.contains("--trace")) {
    // A trace knows no classes: one without targets, in which nothing is ever overdue.
    options.scheduler.classes = {{.name = "all", .longest_wait = std::chrono::hours(24)}};
  }
  options.scheduler.jobs_max = std::clamp<std::uint32_t>(
      static_cast<std::uint32_t>(trace.workload.arrivals.size()), 1, 1U << 20U);
  options.scheduler.running_max = std::min(256U, device.limits.sequences);
  const auto [first, last] = flags.equal_range("--set");
  options.scheduler.slice = device.slice;
  options.scheduler.slice_alone = device.slice_alone;
  for (auto it = first; it != last; ++it) TRY_VOID(set(it->second, device, options.scheduler));

  std::vector<sim::Summary> summaries;
  std::vector<sim::Simulation> simulations;
  for (const sim::Published& published : trace.published) {
    sim::Summary summary = sim::summarise(published, trace.workload);
    if (summary.requests > 0) summaries.push_back(std::move(summary));
  }
  for (const std::string& policy : split(value(flags, "--policy", "lares,vtc,orca"))) {
    options.scheduler.policy = policy;
    simulations.push_back(TRY(sim::simulate(trace.workload, device, options)));
    summaries.push_back(
        sim::summarise(simulations.back(), trace.workload, options.scheduler.classes));
  }
  fmt::print("{}: {} requests on {} ({})\n\n{}", trace.workload.name,
             trace.workload.arrivals.size(), device.name, device.about, to_table(summaries));
  if (const std::string path = value(flags, "--json", ""); !path.empty())
    TRY_VOID(write_file(path, to_json(summaries, trace.workload.name, device)));
  if (const std::string path = value(flags, "--csv", ""); !path.empty())
    TRY_VOID(write_file(path, to_csv(summaries)));
  if (const std::string path = value(flags, "--svg", ""); !path.empty())
    TRY_VOID(write_file(path, to_svg(simulations, trace.workload.name)));
  return {};
}

}  // namespace

int run_simulate_command(std::span<const std::string> arguments) {
  const auto flags = parse(arguments);
  if (!flags) {
    fmt::print(stderr, "lares simulate: {}\n\n{}", flags.error().message, kHelp);
    return 2;
  }
  if (flags->contains("--help")) {
    fmt::print("{}", kHelp);
    return 0;
  }
  const auto done = run(*flags);
  if (done) return 0;
  fmt::print(stderr, "lares simulate: {}\n", done.error().message);
  return done.error().code == Code::Invalid || done.error().code == Code::NotFound ? 2 : 1;
}

}  // namespace lares::app
