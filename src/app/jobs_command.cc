#include "app/jobs_command.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "app/chat_client.h"
#include "app/config.h"
#include "app/run_verb.h"
#include "app/table.h"
#include "core/json.h"
#include "core/text.h"
#include "store/folder_lock.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares jobs [list]       your jobs, the newest first\n"
    "lares jobs show ID      one of them, with its attempts\n"
    "lares jobs result ID    what it brought; a picture goes into --out FILE, or into a pipe\n"
    "lares jobs wait ID      until it is over; 0 if it is done\n"
    "lares jobs cancel ID\n"
    "lares jobs retry ID     once more, one that failed or was cancelled\n"
    "\n"
    "  --state STATE  Of list: queued, running, done, failed or cancelled.\n"
    "  --class CLASS  Of list.\n"
    "  --limit N      Of list; default 50.\n"
    "  --out FILE     Of result.\n"
    "  --json         As the server answers.\n"
    "  --server URL   Default the server of the data folder, or http://127.0.0.1:8080.\n"
    "  --data DIR     Default $XDG_DATA_HOME/lares or ~/.local/share/lares.\n"
    "  --key KEY      Where the server asks for one; default $LARES_KEY.\n";

constexpr std::array<std::string_view, 6> kActions{"list", "show",   "result",
                                                   "wait", "cancel", "retry"};
constexpr std::array<std::string_view, 9> kFlags{
    "--state", "--class", "--limit", "--json", "--out", "--server", "--data", "--key", "--help"};
// Until a server that went away is asked again where a job is.
constexpr std::chrono::milliseconds kAgain{500};
constexpr int kAgainMax = 120;

struct Options {
  std::string action = "list", id, state, cls, limit, key, server, out;
  std::string data = default_data_folder();
  bool json = false, help = false;
};

Result<> set_flag(Options& options, std::string_view flag, std::string value) {
  const std::array<std::pair<std::string_view, std::string*>, 7> places{
      {{"--state", &options.state},
       {"--class", &options.cls},
       {"--limit", &options.limit},
       {"--server", &options.server},
       {"--data", &options.data},
       {"--out", &options.out},
       {"--key", &options.key}}};
  for (const auto& [name, place] : places) {
    if (name != flag) continue;
    *place = std::move(value);
    return {};
  }
  return fail(Code::Invalid,
              fmt::format("there is no flag `{}`.{}", flag, suggestion(flag, kFlags)));
}

Result<> check_words(const std::vector<std::string>& words, Options& options) {
  if (!words.empty()) options.action = words[0];
  if (std::ranges::find(kActions, options.action) == kActions.end()) {
    return fail(Code::Invalid, fmt::format("there is no `lares jobs {}`.{}", options.action,
                                           suggestion(options.action, kActions)));
  }
  const std::size_t wanted = options.action == "list" ? std::min<std::size_t>(words.size(), 1) : 2;
  if (words.size() != wanted) {
    return fail(Code::Invalid, options.action == "list"
                                   ? "`lares jobs list` takes no name"
                                   : fmt::format("write `lares jobs {} ID`", options.action));
  }
  if (wanted == 2) options.id = words[1];
  const bool plain =
      options.id.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == std::string::npos;
  if (!plain) return fail(Code::Invalid, fmt::format("`{}` is not the id of a job", options.id));
  return {};
}

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  if (const char* key = std::getenv("LARES_KEY")) options.key = key;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with('-')) {
      words.push_back(argument);
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else {
      const std::size_t equals = argument.find('=');
      const std::string flag = argument.substr(0, equals);
      const bool known = std::ranges::find(kFlags, flag) != kFlags.end();
      if (known && equals == std::string::npos && i + 1 == arguments.size()) {
        return fail(Code::Invalid, flag + " needs a value after it");
      }
      const bool next = known && equals == std::string::npos;
      TRY_VOID(set_flag(options, flag,
                        next                          ? arguments[++i]
                        : equals == std::string::npos ? ""
                                                      : argument.substr(equals + 1)));
    }
  }
  if (!options.help) TRY_VOID(check_words(words, options));
  return options;
}

Result<ChatClient> client_of(const Options& options) {
  std::string url = options.server;
  if (url.empty()) url = store::server_of(options.data).value_or("http://127.0.0.1:8080");
  return ChatClient(TRY(parse_server_address(url)), options.key, "", -1);
}

// What a refusal says, for a person.
Error refusal(const ChatClient::Answered& answered) {
  const auto parsed = json::parse(answered.body);
  const json::Value* error = parsed ? parsed->find("error") : nullptr;
  const json::Value* message = error == nullptr ? nullptr : error->find("message");
  const auto* text = message == nullptr ? nullptr : message->as<std::string>();
  return {Code::Conflict, text != nullptr
                              ? *text
                              : fmt::format("the server answered with status {}", answered.status)};
}

Result<std::string> ask(const ChatClient& client, std::string_view method, const std::string& path,
                        const std::string& body = "") {
  auto answered = TRY(client.request(method, path, body));
  if (answered.status >= 300) return tl::unexpected(refusal(answered));
  return std::move(answered.body);
}

std::string text_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  const auto* text = value == nullptr ? nullptr : value->as<std::string>();
  return text == nullptr ? std::string() : *text;
}

std::string time_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  const auto seconds = value == nullptr ? std::nullopt : value->number();
  if (!seconds) return "";
  const auto whole = static_cast<std::time_t>(*seconds);
  std::tm parts{};
  localtime_r(&whole, &parts);
  std::array<char, 32> out{};
  return {out.data(), std::strftime(out.data(), out.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

std::string error_at(const json::Value& job) {
  const json::Value* error = job.find("error");
  return error == nullptr ? "" : text_at(*error, "code");
}

Result<> list(const Options& options, const ChatClient& client) {
  std::string path = "/v1/jobs?limit=" + (options.limit.empty() ? "50" : options.limit);
  if (!options.state.empty()) path += "&state=" + options.state;
  if (!options.cls.empty()) path += "&class=" + options.cls;
  const std::string body = TRY(ask(client, "GET", path));
  fmt::print("{}", options.json ? body + "\n" : TRY(jobs_table(body)));
  return {};
}

Result<> show(const Options& options, const ChatClient& client) {
  const std::string body = TRY(ask(client, "GET", "/v1/jobs/" + options.id));
  fmt::print("{}", options.json ? body + "\n" : TRY(job_text(body)));
  return {};
}

// The events' stream ends with the job; where it ends before, the server does not answer for a
// while.
Result<> wait(const Options& options, const ChatClient& client) {
  const std::string path = "/v1/jobs/" + options.id;
  for (int missed = 0;; ++missed) {
    const auto events = client.request("GET", path + "/events");
    if (!events && missed == 0) return tl::unexpected(events.error());
    if (events && events->status >= 300) return tl::unexpected(refusal(*events));
    const auto body = ask(client, "GET", path);
    const auto job = body ? json::parse(*body) : Result<json::Value>(json::Value());
    const std::string state = job ? text_at(*job, "state") : "";
    if (state == "done" || state == "failed" || state == "cancelled") {
      fmt::print("{}", options.json ? *body + "\n" : state + "\n");
      if (state == "done") return {};
      return fail(Code::Conflict, fmt::format("it is {}: {}", state, error_at(*job)));
    }
    if (missed == kAgainMax) return fail(Code::Unavailable, "the server does not answer any more");
    std::this_thread::sleep_for(kAgain);
  }
}

Result<> result(const Options& options, const std::string& bytes) {
  if (!options.out.empty()) {
    std::ofstream file(options.out, std::ios::binary | std::ios::trunc);
    file << bytes;
    if (file.flush()) return {};
    return fail(Code::Io, fmt::format("{} cannot be written", options.out));
  }
  const bool words = is_utf8(bytes);
  if (!words && ::isatty(STDOUT_FILENO) != 0)
    return fail(Code::Invalid, "it brought a file that is no text; say where to with --out FILE");
  fmt::print("{}{}", bytes, words ? "\n" : "");
  return {};
}

Result<> run(const Options& options) {
  const ChatClient client = TRY(client_of(options));
  const std::string path = "/v1/jobs/" + options.id;
  if (options.action == "list") return list(options, client);
  if (options.action == "show") return show(options, client);
  if (options.action == "wait") return wait(options, client);
  if (options.action == "result") {
    return result(options, TRY(ask(client, "GET", path + "/result")));
  }
  const bool cancels = options.action == "cancel";
  const std::string body =
      TRY(cancels ? ask(client, "DELETE", path) : ask(client, "POST", path + "/retry", "{}"));
  if (options.json) {
    fmt::print("{}\n", body);
  } else {
    fmt::print("{}\n", cancels ? "cancelled" : "queued again");
  }
  return {};
}

}  // namespace

Result<std::string> jobs_table(std::string_view body) {
  const json::Value parsed = TRY(json::parse(body));
  const json::Value* data = parsed.find("data");
  const auto* jobs = data == nullptr ? nullptr : data->as<json::Array>();
  if (jobs == nullptr) return fail(Code::Corrupt, "the server's list of jobs makes no sense");
  if (jobs->empty()) return std::string("no jobs\n");
  std::vector<std::vector<std::string>> rows{
      {"id", "state", "class", "path", "created", "ended", "error"}};
  for (const json::Value& job : *jobs) {
    rows.push_back({text_at(job, "id"), text_at(job, "state"), text_at(job, "class"),
                    text_at(job, "path"), time_at(job, "created"), time_at(job, "ended"),
                    error_at(job)});
  }
  return aligned_table(rows, "lllllll");
}

Result<std::string> job_text(std::string_view body) {
  const json::Value job = TRY(json::parse(body));
  std::string out;
  const auto line = [&out](std::string_view name, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:<10}{}\n", name, text);
  };
  for (const char* name : {"id", "state", "path", "class", "member", "reason"}) {
    line(name, text_at(job, name));
  }
  for (const char* name : {"created", "started", "ended"}) line(name, time_at(job, name));
  if (const json::Value* position = job.find("position"))
    line("position", json::to_text(*position));
  if (const json::Value* error = job.find("error")) {
    line("error", text_at(*error, "code") + ": " + text_at(*error, "message"));
  }
  const json::Value* log = job.find("attempt_log");
  const auto* attempts = log == nullptr ? nullptr : log->as<json::Array>();
  for (std::size_t i = 0; attempts != nullptr && i < attempts->size(); ++i) {
    const json::Value& attempt = (*attempts)[i];
    const json::Value* device = attempt.find("device_s");
    const double seconds = device == nullptr ? 0 : device->number().value_or(0);
    const std::string reason = text_at(attempt, "reason");
    line(fmt::format("attempt {}", i + 1),
         fmt::format("{}, {} of the device{}", time_at(attempt, "started"),
                     format_duration(Duration(static_cast<std::int64_t>(seconds * 1e9))),
                     reason.empty() ? "" : ": " + reason));
  }
  return out;
}

int run_jobs_command(std::span<const std::string> arguments) {
  return run_verb("jobs", kHelp, parse(arguments), run, Code::Invalid);
}

}  // namespace lares::app
