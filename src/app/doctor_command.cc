#include "app/doctor_command.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "app/checkup.h"
#include "app/config.h"
#include "core/text.h"
#include "server/cost_book.h"
#include "store/members.h"
#include "store/segments.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares doctor [--json] [FLAGS OF lares serve]\n"
    "\n"
    "  Says what the configuration promises on this machine, where the time of the last day's\n"
    "  requests went, and what to change. The promises come from how long steps took here when a\n"
    "  model last served; they hold while memory lasts. Ends with 1 if something needs mending.\n";

constexpr std::int64_t kDayMs = 86'400'000;

// What would make a segment shorter.
std::string_view remedy(std::string_view segment) {
  if (segment == "queue")
    return "the device is busy: see `lares usage` for whom, and their weights";
  if (segment == "model_load") return "keep that model loaded (keep), or give models more memory";
  if (segment == "text_work") return "templates and schemas take long: shorten tools and schemas";
  if (segment == "prefill") return "prompts are long: put common first words into shared_prompts";
  if (segment == "inference")
    return "answers are long or the model is slow: a smaller one, or max_tokens";
  return "clients take what they get slowly: look at the network";
}

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
  std::vector<store::Segment> segments;  // The slowest first.
  Findings findings;                     // Problems first.
};

std::string segment_json(const store::Segment& s) {
  return fmt::format(
      "{{\"name\":{},\"requests\":{},\"seconds\":{:.3f},\"mean_s\":{:.6f},\"p95_s\":{:.6f}}}",
      json_quoted(s.name), s.requests, s.seconds, s.mean_s, s.p95_s);
}

std::string finding_json(const Finding& f) {
  const bool problem = f.level == Finding::Level::Problem;
  return fmt::format("{{\"level\":\"{}\",\"what\":{},\"advice\":{}}}",
                     problem ? "problem" : "advice", json_quoted(f.what), json_quoted(f.advice));
}

template <class Items, class Write>
std::string list(const Items& items, Write write) {
  std::string out;
  for (const auto& item : items) {
    const std::string text = write(item);
    if (!text.empty()) out += (out.empty() ? "" : ",") + text;
  }
  return out;
}

std::string to_json(const Report& r) {
  std::string classes;
  for (std::size_t i = 0; i < r.options.classes.size(); ++i) {
    classes += fmt::format("{}{}:{{\"longest_wait_s\":{:.3f}}}", i == 0 ? "" : ",",
                           json_quoted(r.options.classes[i].name),
                           in_seconds(r.guarantees.longest_wait[i]));
  }
  return fmt::format(
      "{{\"guarantees\":{{\"longest_slice_ms\":{:.3f},\"classes\":{{{}}}}},\"members\":{},"
      "\"measured\":{},\"cost_table\":{},\"slowest_segment\":{},\"segments\":[{}],"
      "\"problems\":[{}],\"well\":[{}]}}\n",
      in_seconds(r.guarantees.longest_slice) * 1e3, classes, r.members, json_quoted(r.device.about),
      json_quoted(r.device.cost.to_text()),
      r.segments.empty() ? "null" : segment_json(r.segments.front()),
      list(r.segments, segment_json),
      list(r.findings,
           [](const Finding& f) { return f.advice.empty() ? std::string() : finding_json(f); }),
      list(r.findings, [](const Finding& f) {
        return f.advice.empty() ? json_quoted(f.what) : std::string();
      }));
}

std::string promises(const Report& r) {
  std::string out = fmt::format("What this configuration promises ({})\n\n  longest step    {}\n",
                                r.device.about, format_duration(r.guarantees.longest_slice));
  out += fmt::format("  first step at worst after, with {} member{} and while memory lasts\n",
                     r.members, r.members == 1 ? "" : "s");
  for (std::size_t i = 0; i < r.options.classes.size(); ++i) {
    out += fmt::format("    {:<13} {}\n", r.options.classes[i].name,
                       format_duration(r.guarantees.longest_wait[i]));
  }
  const sched::CostTable& cost = r.device.cost;
  out += "  a step of so many tokens takes, of streams and of a prompt\n";
  for (std::size_t k = 0; k < sched::CostTable::kKnots; ++k) {
    const std::uint32_t tokens = sched::CostTable::knot_tokens(k);
    if (tokens > r.device.limits.batch_tokens) break;
    const std::string streams = tokens <= r.options.running_max
                                    ? format_duration(cost.time({.tokens = tokens}))
                                    : std::string();
    out += fmt::format("    {:<13} {:<9} {}\n", tokens, streams,
                       format_duration(cost.time({.tokens = tokens, .prompt = tokens})));
  }
  const auto thousand = [](std::int64_t each_ps) {
    return format_duration(Duration(each_ps));  // Thousand positions, in nanoseconds.
  };
  return out + fmt::format(
                   "  and for each thousand positions that a stream looks back {}, beside "
                   "a prompt {} more\n",
                   thousand(cost.decode_attended_ps), thousand(cost.mixed_ps));
}

std::string where_time_went(const Report& r) {
  std::string out = "\nWhere the time of the last day's requests went\n\n";
  if (r.segments.empty()) return out + "  there were none\n";
  double all = 0;
  for (const store::Segment& s : r.segments) all += s.seconds;
  for (const store::Segment& s : r.segments) {
    out += fmt::format("  {:<13} {:>4.0f} %   mean {:.2f} s, p95 {:.2f} s\n", s.name,
                       s.seconds / all * 100, s.mean_s, s.p95_s);
  }
  return out + fmt::format("  -> {}\n", remedy(r.segments.front().name));
}

std::string what_to_change(const Report& r) {
  std::string out, well;
  for (const Finding& f : r.findings) {
    if (f.advice.empty()) {
      well += fmt::format("  {}\n", f.what);
    } else {
      out += fmt::format("  {} {}\n    {}\n", f.level == Finding::Level::Problem ? "!" : "-",
                         f.what, f.advice);
    }
  }
  return fmt::format("\nWhat to change\n\n{}\nChecked and well\n\n{}",
                     out.empty() ? "  nothing\n" : out, well);
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
  options.lead_max = config.lead;
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

int run_doctor_command(std::span<const std::string> arguments, const std::string& executable) {
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
                .members = count_members(config->data),
                .segments = {},
                .findings = {}};
  if (const auto usable = sched::Scheduler::create(report.options); !usable) {
    fmt::print(stderr, "lares doctor: {}\n", usable.error().message);
    return 2;
  }
  report.device.limits.batch_tokens = config->step_tokens;
  report.device.limits.sequences = std::min(256U, config->sequences * 2);
  report.guarantees =
      sched::guarantees(report.options, report.device.limits, report.device.cost, report.members);
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  if (auto segments = store::segments_since(config->data, now.count() - kDayMs))
    report.segments = std::move(*segments);
  report.findings = check_up(*config, executable);
  fmt::print("{}", json ? to_json(report)
                        : promises(report) + where_time_went(report) + what_to_change(report));
  return std::ranges::count(report.findings, Finding::Level::Problem, &Finding::level) > 0 ? 1 : 0;
}

}  // namespace lares::app
