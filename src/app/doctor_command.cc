#include "app/doctor_command.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/config.h"
#include "core/text.h"
#include "server/cost_book.h"
#include "store/members.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares doctor [--json] [FLAGS OF lares serve]\n"
    "\n"
    "  Prints what the configuration promises: the longest step that is planned, and how long "
    "each\n"
    "  class waits at worst for its first step, while memory lasts. Computed from how long steps\n"
    "  took on this machine when a model last served; says so if none has.\n";

// Members with keys, and home.
std::uint32_t count_members(const std::string& data) {
  auto store = store::MemberStore::open(data);
  if (!store) return 1;
  const auto members = store->all();
  return members ? static_cast<std::uint32_t>(members->size()) + 1 : 1;
}

struct Report {
  sim::SimulatedDevice device;
  sched::Options options;
  sched::Guarantees guarantees;
  std::uint32_t members = 1;
};

std::string to_json(const Report& r) {
  std::string classes;
  for (std::size_t i = 0; i < r.options.classes.size(); ++i) {
    classes += fmt::format("{}{}:{{\"longest_wait_s\":{:.3f}}}", i == 0 ? "" : ",",
                           json_quoted(r.options.classes[i].name),
                           in_seconds(r.guarantees.longest_wait[i]));
  }
  return fmt::format(
      "{{\"guarantees\":{{\"longest_slice_ms\":{:.3f},\"classes\":{{{}}}}},\"members\":{},"
      "\"measured\":{},\"cost_table\":{}}}\n",
      in_seconds(r.guarantees.longest_slice) * 1e3, classes, r.members, json_quoted(r.device.about),
      json_quoted(r.device.cost.to_text()));
}

std::string to_text(const Report& r) {
  std::string out = fmt::format("how long steps take: {}\n", r.device.about);
  for (std::size_t k = 0; k < sched::CostTable::kKnots; ++k) {
    const std::uint32_t tokens = sched::CostTable::knot_tokens(k);
    if (tokens > r.device.limits.batch_tokens) break;
    out += fmt::format("  {:>5} tokens {:>10}\n", tokens,
                       format_duration(r.device.cost.time({.tokens = tokens})));
  }
  out += fmt::format(
      "\nlongest step: {}\nwhile memory lasts, with {} member{}, a first step comes "
      "at worst after\n",
      format_duration(r.guarantees.longest_slice), r.members, r.members == 1 ? "" : "s");
  for (std::size_t i = 0; i < r.options.classes.size(); ++i) {
    out += fmt::format("  {:<12} {}\n", r.options.classes[i].name,
                       format_duration(r.guarantees.longest_wait[i]));
  }
  return out;
}

}  // namespace

sched::Options scheduler_options(const Config& config) {
  sched::Options options;
  options.policy = config.policy;
  options.jobs_max = config.jobs;
  options.running_max = config.sequences;
  options.step_tokens = config.step_tokens;
  options.runs_in_flight = config.runs_in_flight;
  options.cache_tokens = config.cache_tokens;
  options.member_pool = config.member_pool * 10;
  options.slice = config.slice;
  options.slice_alone = config.slice_alone;
  options.tuning.guard = config.guard;
  for (const std::string& name : config.classes)
    options.classes.push_back(class_spec(config, name));
  return options;
}

sim::SimulatedDevice device_of_this_machine(const std::string& data_folder) {
  sim::SimulatedDevice device = *sim::find_device("two-core-0.1b");
  device.name = "this";
  device.about = "nothing has served here yet; the table is of another machine, " + device.about;
  server::CostBook book(data_folder);
  for (const auto& [key, text] : book.tables()) {
    const auto table = sched::CostTable::parse(text);
    if (!table) continue;
    device.cost = *table;
    device.about = "measured here when a model last served (" + key + ")";
  }
  return device;
}

int run_doctor_command(std::span<const std::string> arguments) {
  std::vector<std::string> rest(arguments.begin(), arguments.end());
  const bool json = std::erase(rest, "--json") > 0;
  const auto config = load_config(rest);
  if (!config) {
    fmt::print(stderr, "lares doctor: {}\n", config.error().message);
    return 2;
  }
  if (config->help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  Report report{.device = device_of_this_machine(config->data),
                .options = scheduler_options(*config),
                .guarantees = {},
                .members = count_members(config->data)};
  if (const auto usable = sched::Scheduler::create(report.options); !usable) {
    fmt::print(stderr, "lares doctor: {}\n", usable.error().message);
    return 2;
  }
  report.device.limits.batch_tokens = config->step_tokens;
  report.device.limits.sequences = std::min(256U, config->sequences * 2);
  report.guarantees =
      sched::guarantees(report.options, report.device.limits, report.device.cost, report.members);
  fmt::print("{}", json ? to_json(report) : to_text(report));
  return 0;
}

}  // namespace lares::app
