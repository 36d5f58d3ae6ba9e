#include "app/backup_command.h"

#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/config.h"
#include "core/text.h"
#include "store/journal.h"
#include "store/usage_rows.h"

namespace lares::app {
namespace {

constexpr std::string_view kBackupHelp =
    "lares backup FILE [--data DIR]\n"
    "\n"
    "  Copies members, usage, jobs, requests and results, as they are at one moment, into FILE. A\n"
    "  running server goes on meanwhile. To restore, stop the server, move its lares.db, its\n"
    "  lares.db-wal and lares.db-shm away, and put FILE in their place as lares.db.\n"
    "  --data DIR  The server's data folder; default $XDG_DATA_HOME/lares or "
    "~/.local/share/lares.\n";
constexpr std::string_view kExportHelp =
    "lares export usage --csv|--json [--data DIR]\n"
    "\n"
    "  Every row of the usage ledger, the oldest first: CSV with a head, or a JSON object a line.\n"
    "  Times are seconds; an empty or absent one was never reached.\n"
    "  --data DIR  The server's data folder; default $XDG_DATA_HOME/lares or "
    "~/.local/share/lares.\n";

constexpr std::array<std::pair<std::string_view, Duration store::Clocks::*>, 8> kClocks{
    {{"queue_wait_s", &store::Clocks::queue_wait},
     {"model_load_s", &store::Clocks::model_load},
     {"text_work_s", &store::Clocks::text_work},
     {"prefill_s", &store::Clocks::prefill},
     {"inference_s", &store::Clocks::inference},
     {"deliver_s", &store::Clocks::deliver},
     {"first_token_s", &store::Clocks::first_token},
     {"total_s", &store::Clocks::total}}};

struct Options {
  std::vector<std::string> words;
  std::string data = default_data_folder();
  bool csv = false, json = false, help = false;
};

Result<Options> parse(std::span<const std::string> arguments) {
  static constexpr std::string_view kFlags[] = {"--csv", "--json", "--data", "--help"};
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--csv") {
      options.csv = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--data" && i + 1 < arguments.size()) {
      options.data = arguments[++i];
    } else if (argument.starts_with("--data=")) {
      options.data = argument.substr(7);
    } else if (argument == "--data") {
      return fail(Code::Invalid, "--data needs a value after it");
    } else if (argument.starts_with('-')) {
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", argument, suggestion(argument, kFlags)));
    } else {
      options.words.push_back(argument);
    }
  }
  return options;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

Result<> backup(const Options& options) {
  if (options.words.size() != 1) {
    return fail(Code::Invalid, "say which file to write: `lares backup FILE`");
  }
  auto journal = TRY(store::Journal::open_existing(options.data));
  TRY_VOID(journal->backup(options.words[0]));
  fmt::print("{} holds what {} held\n", options.words[0], options.data);
  return {};
}

Result<> export_usage(const Options& options) {
  if (options.words.size() != 1 || options.words[0] != "usage") {
    return fail(Code::Invalid, "say what to export: `lares export usage --csv` or `--json`");
  }
  if (options.csv == options.json) return fail(Code::Invalid, "say --csv or --json, one of them");
  auto journal = TRY(store::Journal::open_existing(options.data));
  if (options.csv) fmt::print("{}", usage_csv_head());
  return store::each_usage(journal->database(), [&options](const store::UsageRow& row) {
    fmt::print("{}", options.csv ? usage_csv(row) : usage_row_json(row));
  });
}

int run(std::string_view verb, std::string_view help, Result<> (*work)(const Options&),
        std::span<const std::string> arguments) {
  const auto options = parse(arguments);
  if (options && options->help) {
    fmt::print("{}", help);
    return 0;
  }
  const Result<> done = options ? work(*options) : Result<>(tl::unexpected(options.error()));
  if (done) return 0;
  fmt::print(stderr, "lares {}: {}\n", verb, done.error().message);
  return done.error().code == Code::Invalid ? 2 : 1;
}

}  // namespace

std::string usage_csv_head() {
  std::string out =
      "accepted,member,member_id,class,model,outcome,reason,job,prompt_tokens,cached_tokens,"
      "output_tokens,device_s";
  for (const auto& [name, clock] : kClocks) out += fmt::format(",{}", name);
  return out + "\r\n";
}

std::string usage_csv(const store::UsageRow& row) {
  std::string out =
      fmt::format("{:.3f},{},{},{},{},{},{},{},{},{},{},{:.6f}",
                  static_cast<double>(row.accepted_unix_ms) / 1e3, csv_field(row.member),
                  row.member_id.value, csv_field(row.cls), csv_field(row.model),
                  store::outcome_name(row.outcome), csv_field(row.reason), csv_field(row.job_id),
                  row.prompt_tokens, row.cached_tokens, row.output_tokens, in_seconds(row.device));
  for (const auto& [name, clock] : kClocks) {
    const Duration time = row.clocks.*clock;
    out += time.count() < 0 ? "," : fmt::format(",{:.6f}", in_seconds(time));
  }
  return out + "\r\n";
}

std::string usage_row_json(const store::UsageRow& row) {
  std::string out = fmt::format(
      R"({{"accepted": {:.3f}, "member": {}, "member_id": {}, "class": {}, "model": {}, )"
      R"("outcome": "{}", "reason": {}, "job": {}, "prompt_tokens": {}, "cached_tokens": {}, )"
      R"("output_tokens": {}, "device_s": {:.6f})",
      static_cast<double>(row.accepted_unix_ms) / 1e3, json_quoted(row.member), row.member_id.value,
      json_quoted(row.cls), json_quoted(row.model), store::outcome_name(row.outcome),
      json_quoted(row.reason), json_quoted(row.job_id), row.prompt_tokens, row.cached_tokens,
      row.output_tokens, in_seconds(row.device));
  for (const auto& [name, clock] : kClocks) {
    const Duration time = row.clocks.*clock;
    if (time.count() >= 0) out += fmt::format(", \"{}\": {:.6f}", name, in_seconds(time));
  }
  return out + "}\n";
}

int run_backup_command(std::span<const std::string> arguments) {
  return run("backup", kBackupHelp, backup, arguments);
}

int run_export_command(std::span<const std::string> arguments) {
  return run("export", kExportHelp, export_usage, arguments);
}

}  // namespace lares::app
