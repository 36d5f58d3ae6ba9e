#include "app/usage_command.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "app/config.h"
#include "app/table.h"
#include "core/text.h"
#include "store/journal.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares usage [--by member|class|model|day] [--json] [--data DIR]\n"
    "lares usage --check [--data DIR]\n"
    "\n"
    "  What was asked for and what it took, from the ledger that `lares serve` keeps.\n"
    "  --by KEY    One line for each of these; default member. Days are local ones.\n"
    "  --check     Whether the ledger is exact: every job that is over has its row, and the "
    "device's\n"
    "              time is accounted for to 1 %. Says what is wrong; 0 only if nothing is.\n"
    "  --json      A JSON array instead of a table.\n"
    "  --data DIR  The server's data folder; default $XDG_DATA_HOME/lares or "
    "~/.local/share/lares.\n";

constexpr std::array<std::string_view, 4> kKeys{"member", "class", "model", "day"};

std::string_view key_name(store::UsageBy by) {
  return kKeys[static_cast<std::size_t>(by)];
}

struct Options {
  store::UsageBy by = store::UsageBy::Member;
  bool json = false;
  bool check = false;
  bool help = false;
  std::string data = default_data_folder();
};

Result<> set_by(Options& options, std::string_view value) {
  const auto found = std::ranges::find(kKeys, value);
  if (found == kKeys.end()) {
    return fail(Code::Invalid, fmt::format("--by: `{}` is not one of member, class, model, day.{}",
                                           value, suggestion(value, kKeys)));
  }
  options.by = static_cast<store::UsageBy>(found - kKeys.begin());
  return {};
}

Result<Options> parse(std::span<const std::string> arguments) {
  static constexpr std::string_view kFlags[] = {"--by", "--json", "--data", "--check", "--help"};
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    if (name == "--json") {
      options.json = true;
    } else if (name == "--check") {
      options.check = true;
    } else if (name == "--help" || name == "-h") {
      options.help = true;
    } else if (name == "--by" || name == "--data") {
      if (equals == std::string::npos && i + 1 == arguments.size()) {
        return fail(Code::Invalid, name + " needs a value after it");
      }
      const std::string value =
          equals == std::string::npos ? arguments[++i] : arguments[i].substr(equals + 1);
      if (name == "--data") {
        options.data = value;
      } else {
        TRY_VOID(set_by(options, value));
      }
    } else {
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", name, suggestion(name, kFlags)));
    }
  }
  return options;
}

using Row = std::vector<std::string>;

std::string seconds(double s) {
  return format_duration(Duration(static_cast<Duration::rep>(s * 1e9)));
}

Row row_of(const std::string& key, const store::UsageSum& sum) {
  return {key,
          fmt::format("{}", sum.requests),
          fmt::format("{}", sum.failed),
          fmt::format("{}", sum.cancelled),
          fmt::format("{}", sum.prompt_tokens),
          fmt::format("{}", sum.cached_tokens),
          fmt::format("{}", sum.output_tokens),
          seconds(sum.device_s),
          seconds(sum.queue_wait_s_mean),
          seconds(sum.first_token_s_mean)};
}

store::UsageSum total_of(const std::vector<store::UsageSum>& sums) {
  store::UsageSum total;
  for (const store::UsageSum& sum : sums) {
    total.requests += sum.requests;
    total.failed += sum.failed;
    total.cancelled += sum.cancelled;
    total.prompt_tokens += sum.prompt_tokens;
    total.cached_tokens += sum.cached_tokens;
    total.output_tokens += sum.output_tokens;
    total.device_s += sum.device_s;
  }
  return total;
}

std::string percent(Duration part, Duration whole) {
  if (whole.count() == 0) return "0.0 %";
  return fmt::format("{:.1f} %", 100 * in_seconds(part) / in_seconds(whole));
}

std::string check_text(const store::Journal::Times& times, const std::vector<std::string>& faults) {
  const store::DeviceTotals& t = times.totals;
  std::string out = fmt::format(
      "device: {} since the first start: members {} ({}), idle {} ({}), overhead {} ({})\n",
      format_duration(t.wall), format_duration(times.of_members), percent(times.of_members, t.wall),
      format_duration(t.idle), percent(t.idle, t.wall), format_duration(t.overhead),
      percent(t.overhead, t.wall));
  for (const std::string& fault : faults) out += "wrong: " + fault + "\n";
  return out + (faults.empty()
                    ? "the ledger is exact\n"
                    : fmt::format("the ledger is not exact: {} faults\n", faults.size()));
}

std::string check_json(const store::Journal::Times& times, const std::vector<std::string>& faults) {
  const store::DeviceTotals& t = times.totals;
  std::string list;
  for (const std::string& fault : faults) list += (list.empty() ? "" : ", ") + json_quoted(fault);
  return fmt::format(
      "{{\"exact\": {}, \"faults\": [{}], \"wall_s\": {:.6f}, \"members_s\": {:.6f}, "
      "\"idle_s\": {:.6f}, \"overhead_s\": {:.6f}, \"busy_s\": {:.6f}}}\n",
      faults.empty(), list, in_seconds(t.wall), in_seconds(times.of_members), in_seconds(t.idle),
      in_seconds(t.overhead), in_seconds(t.busy));
}

// Everything is read as it is at one moment, beside a server that writes. True if it is exact.
Result<bool> check(const Options& options) {
  auto journal = TRY(store::Journal::open_existing(options.data));
  TRY_VOID(journal->database().execute("BEGIN"));
  const auto faults = TRY(journal->check());
  const auto times = TRY(journal->times());
  fmt::print("{}", options.json ? check_json(times, faults) : check_text(times, faults));
  return faults.empty();
}

}  // namespace

std::string usage_table(store::UsageBy by, const std::vector<store::UsageSum>& sums) {
  if (sums.empty()) return "no requests yet\n";
  std::vector<Row> rows{{std::string(key_name(by)), "requests", "failed", "cancelled", "prompt",
                         "cached", "output", "device", "mean wait", "mean first"}};
  for (const store::UsageSum& sum : sums) rows.push_back(row_of(sum.key, sum));
  if (sums.size() > 1) {
    rows.push_back(row_of("total", total_of(sums)));
    // Means of means would mislead.
    rows.back()[8] = rows.back()[9] = "";
  }
  return aligned_table(rows, "lrrrrrrrrr");
}

std::string usage_json(store::UsageBy by, const std::vector<store::UsageSum>& sums) {
  std::string out = "[";
  for (const store::UsageSum& sum : sums) {
    out += out.size() == 1 ? "\n" : ",\n";
    out += fmt::format("  {{\"{}\": \"", key_name(by));
    append_json_escaped(out, utf8_sanitised(sum.key));
    out += fmt::format(
        "\", \"requests\": {}, \"failed\": {}, \"cancelled\": {}, \"prompt_tokens\": {}, "
        "\"cached_tokens\": {}, \"output_tokens\": {}, \"device_s\": {:.6f}, "
        "\"queue_wait_s_mean\": {:.6f}, \"first_token_s_mean\": {:.6f}}}",
        sum.requests, sum.failed, sum.cancelled, sum.prompt_tokens, sum.cached_tokens,
        sum.output_tokens, sum.device_s, sum.queue_wait_s_mean, sum.first_token_s_mean);
  }
  return out + (sums.empty() ? "]\n" : "\n]\n");
}

int run_usage_command(std::span<const std::string> arguments) {
  const Result<Options> options = parse(arguments);
  if (!options) {
    fmt::print(stderr, "lares usage: {}\n", options.error().message);
    return 2;
  }
  if (options->help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  if (options->check) {
    const auto exact = check(*options);
    if (exact) return *exact ? 0 : 1;
    fmt::print(stderr, "lares usage: {}\n", exact.error().message);
    return 1;
  }
  auto ledger = store::UsageLedger::open_existing(options->data);
  if (!ledger) {
    fmt::print(stderr, "lares usage: {}\n", ledger.error().message);
    return 1;
  }
  const auto sums = (*ledger)->sum(options->by);
  if (!sums) {
    fmt::print(stderr, "lares usage: {}\n", sums.error().message);
    return 1;
  }
  fmt::print("{}",
             options->json ? usage_json(options->by, *sums) : usage_table(options->by, *sums));
  return 0;
}

}  // namespace lares::app
