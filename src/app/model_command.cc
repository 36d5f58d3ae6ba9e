#include "app/model_command.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "app/chat_client.h"
#include "app/config.h"
#include "app/model_files.h"
#include "app/model_folder.h"
#include "app/table.h"
#include "core/json.h"
#include "core/text.h"
#include "worker/supervisor.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares model list           every model, with size, context, and whether it is loaded\n"
    "lares model show NAME      one of them\n"
    "lares model add FILE       put a GGUF file, or all parts of a split one, into the folder\n"
    "lares model remove NAME    delete its files from the folder\n"
    "\n"
    "A running server is asked what it serves; without one, the files say what they are. A server\n"
    "notices what is added and removed within a few seconds.\n"
    "\n"
    "  --name NAME   Under which name it is added; default the file's own.\n"
    "  --link        Add a symbolic link, instead of a hard link or a copy.\n"
    "  --yes         Do not ask before files are deleted.\n"
    "  --models DIR  The folder; default the folder `models` in --data. With it, no server is "
    "asked.\n"
    "  --data DIR    The server's data folder; default $XDG_DATA_HOME/lares or\n"
    "                ~/.local/share/lares.\n"
    "  --server URL  Default http://127.0.0.1:8080.\n"
    "  --key KEY     Where the server asks for one; default $LARES_KEY.\n"
    "  --json        For programs.\n";

constexpr std::array<std::string_view, 4> kActions{"list", "show", "add", "remove"};
constexpr std::array<std::string_view, 9> kFlags{
    "--name", "--link", "--yes", "--models", "--data", "--server", "--key", "--json", "--help"};

struct Options {
  std::string action, what, name, models, key;
  std::string data = default_data_folder();
  std::string executable;
  ServerAddress server;
  bool link = false, yes = false, json = false, help = false;

  [[nodiscard]] std::string folder() const { return models.empty() ? data + "/models" : models; }
};

bool set_switch(Options& options, std::string_view flag) {
  if (flag == "--link") {
    options.link = true;
  } else if (flag == "--yes") {
    options.yes = true;
  } else if (flag == "--json") {
    options.json = true;
  } else if (flag == "--help" || flag == "-h") {
    options.help = true;
  } else {
    return false;
  }
  return true;
}

Result<> set_flag(Options& options, std::string_view flag, std::string value) {
  if (flag == "--server") {
    options.server = TRY(parse_server_address(value));
  } else if (flag == "--name") {
    if (value.empty() || value.starts_with('.') || value.find('/') != std::string::npos) {
      return fail(Code::Invalid, fmt::format("--name: `{}` cannot be a file's name", value));
    }
    options.name = std::move(value);
  } else {
    std::string& to = flag == "--models" ? options.models
                      : flag == "--data" ? options.data
                                         : options.key;
    to = std::move(value);
  }
  return {};
}

Result<> check_words(const std::vector<std::string>& words) {
  if (words.empty()) {
    return fail(Code::Invalid,
                "say what to do: list, show, add or remove; `lares model --help` explains");
  }
  if (std::ranges::find(kActions, words[0]) == kActions.end()) {
    return fail(Code::Invalid, fmt::format("there is no `lares model {}`.{}", words[0],
                                           suggestion(words[0], kActions)));
  }
  const std::size_t wanted = words[0] == "list" ? 1 : 2;
  if (words.size() == wanted) return {};
  return fail(Code::Invalid, wanted == 1 ? "`lares model list` takes no name"
                                         : fmt::format("write `lares model {} {}`", words[0],
                                                       words[0] == "add" ? "FILE" : "NAME"));
}

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  if (const char* key = std::getenv("LARES_KEY")) options.key = key;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with('-')) {
      words.push_back(argument);
      continue;
    }
    if (set_switch(options, argument)) continue;
    const std::size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    if (std::ranges::find(kFlags, flag) == kFlags.end()) {
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", flag, suggestion(flag, kFlags)));
    }
    if (equals == std::string::npos && i + 1 == arguments.size()) {
      return fail(Code::Invalid, flag + " needs a value after it");
    }
    TRY_VOID(set_flag(options, flag,
                      equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1)));
  }
  if (options.help) return options;
  TRY_VOID(check_words(words));
  options.action = words[0];
  if (words.size() > 1) options.what = words[1];
  return options;
}

ModelRow row_of(const FoundModel& found, const Result<engine::ModelInfo>& info) {
  ModelRow row;
  row.name = found.name;
  row.path = found.path;
  if (!info) {
    row.error = info.error().message;
    return row;
  }
  row.architecture = info->architecture;
  row.bytes = static_cast<std::uint64_t>(info->weights.count);
  row.parameters = info->parameters;
  row.context = info->context;
  row.generates = info->can.generates;
  row.embeds = info->can.embeds;
  row.cut_anywhere = info->can.cut_anywhere;
  return row;
}

std::unique_ptr<worker::WorkerFactory> prober(const Options& options) {
  worker::ProcessOptions processes;
  processes.executable = options.executable;
  return worker::process_workers(std::move(processes));
}

Result<std::vector<ModelRow>> rows_of_folder(const Options& options) {
  std::vector<ModelRow> rows;
  const auto workers = prober(options);
  for (const FoundModel& found : TRY(find_models(options.folder()))) {
    rows.push_back(row_of(found, workers->probe(found.path)));
  }
  return rows;
}

// What a running server says; where there is none, what the folder holds.
Result<std::vector<ModelRow>> all_rows(const Options& options) {
  if (!options.models.empty()) return rows_of_folder(options);
  const ChatClient client(options.server, options.key, "", -1);
  const auto body = client.get("/v1/models");
  if (body) return read_models(*body);
  if (body.error().code != Code::Unavailable) return tl::unexpected(body.error());
  if (!options.json) {
    fmt::print(stderr, "no server at {}:{}; these are the files in {}\n", options.server.host,
               options.server.port, options.folder());
  }
  return rows_of_folder(options);
}

Result<> list(const Options& options) {
  const std::vector<ModelRow> rows = TRY(all_rows(options));
  if (!options.json) {
    fmt::print("{}", model_table(rows));
    return {};
  }
  std::string out = "[";
  for (const ModelRow& row : rows) out += (out.size() > 1 ? ",\n  " : "\n  ") + model_json(row);
  fmt::print("{}{}]\n", out, rows.empty() ? "" : "\n");
  return {};
}

std::string abilities(const ModelRow& row) {
  if (row.generates) return row.embeds ? "text, embeddings" : "text";
  return row.embeds ? "embeddings" : "nothing";
}

Result<> show(const Options& options) {
  const std::vector<ModelRow> rows = TRY(all_rows(options));
  std::vector<std::string_view> names;
  for (const ModelRow& row : rows) names.push_back(row.name);
  const auto found = std::ranges::find(rows, options.what, &ModelRow::name);
  if (found == rows.end()) {
    return fail(Code::NotFound, fmt::format("there is no model `{}`.{}", options.what,
                                            suggestion(options.what, names)));
  }
  if (options.json) {
    fmt::print("{}\n", model_json(*found));
    return {};
  }
  fmt::print("name          {}\n", found->name);
  if (!found->path.empty()) fmt::print("file          {}\n", found->path);
  if (!found->state.empty()) fmt::print("state         {}\n", found->state);
  if (!found->error.empty()) fmt::print("error         {}\n", found->error);
  fmt::print(
      "architecture  {}\nparameters    {}\nsize          {}\ncontext       {} tokens\n"
      "makes         {}\nprompt reuse  {}\n",
      found->architecture, found->parameters, format_bytes(static_cast<std::int64_t>(found->bytes)),
      found->context, abilities(*found),
      found->cut_anywhere ? "where prompts begin alike" : "of whole prompts: memory of one piece");
  return {};
}

Result<> add(const Options& options) {
  if (!options.what.ends_with(".gguf")) {
    return fail(Code::Invalid, fmt::format("{} is not a GGUF file (its name does not end with "
                                           ".gguf)",
                                           options.what));
  }
  const auto info = TRY(prober(options)->probe(options.what));
  if (!info.can.generates && !info.can.embeds) {
    return fail(Code::Unsupported, fmt::format("{} ({}) makes neither text nor embeddings",
                                               options.what, info.architecture));
  }
  const std::string path =
      TRY(add_model_files(options.what, options.folder(), options.name,
                          options.link ? AddHow::Symlink : AddHow::LinkOrCopy));
  fmt::print("added {}; a running server of this folder finds it within a few seconds\n", path);
  return {};
}

// Deleting many gigabytes is not taken back.
bool confirmed(const Options& options, const std::vector<std::string>& files) {
  if (options.yes) return true;
  if (::isatty(STDIN_FILENO) != 1) return false;
  for (const std::string& file : files) fmt::print("{}\n", file);
  fmt::print("Delete? [y/N] ");
  std::fflush(stdout);
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

Result<> remove(const Options& options) {
  const std::vector<FoundModel> models = TRY(find_models(options.folder()));
  std::vector<std::string_view> names;
  for (const FoundModel& model : models) names.push_back(model.name);
  const auto found = std::ranges::find(models, options.what, &FoundModel::name);
  if (found == models.end()) {
    return fail(Code::NotFound, fmt::format("there is no model `{}` in {}.{}", options.what,
                                            options.folder(), suggestion(options.what, names)));
  }
  const std::vector<std::string> files = model_parts(found->path);
  if (!confirmed(options, files)) {
    return fail(Code::Conflict, "nothing was deleted; --yes deletes without asking");
  }
  TRY_VOID(remove_model_files(found->path));
  for (const std::string& file : files) fmt::print("deleted {}\n", file);
  return {};
}

Result<> run(const Options& options) {
  if (options.action == "list") return list(options);
  if (options.action == "show") return show(options);
  return options.action == "add" ? add(options) : remove(options);
}

}  // namespace

std::string model_table(const std::vector<ModelRow>& rows) {
  if (rows.empty()) return "no models; `lares model add FILE` adds one\n";
  std::vector<std::vector<std::string>> lines{
      {"name", "size", "context", "makes", "reuse", "state"}};
  for (const ModelRow& row : rows) {
    const std::string state = row.state == "ready" ? "loaded" : row.state;
    lines.push_back({row.name, format_bytes(static_cast<std::int64_t>(row.bytes)),
                     fmt::format("{}", row.context), abilities(row),
                     row.cut_anywhere ? "yes" : "no",
                     row.error.empty() ? state : fmt::format("failed: {}", row.error)});
  }
  return aligned_table(lines, "lrrlll");
}

std::string model_json(const ModelRow& row) {
  json::Object object{{"name", row.name},
                      {"size_bytes", row.bytes},
                      {"context", std::int64_t{row.context}},
                      {"architecture", row.architecture},
                      {"parameters", row.parameters},
                      {"generates", row.generates},
                      {"embeds", row.embeds},
                      {"cut_anywhere", row.cut_anywhere}};
  if (!row.state.empty()) object.emplace_back("state", row.state);
  if (!row.path.empty()) object.emplace_back("path", row.path);
  if (!row.error.empty()) object.emplace_back("error", row.error);
  return json::to_text(json::Value(std::move(object)));
}

Result<std::vector<ModelRow>> read_models(const std::string& body) {
  const json::Value parsed = TRY(json::parse(body));
  const json::Value* data = parsed.find("data");
  const auto* list = data == nullptr ? nullptr : data->as<json::Array>();
  if (list == nullptr) return fail(Code::Corrupt, "the server's list of models makes no sense");
  std::vector<ModelRow> rows;
  json::Problem problem;
  for (const json::Value& value : *list) {
    const json::Fields model(value, "", problem);
    const auto text = [&model](std::string_view name) {
      const std::string* found = model.string(name);
      return found == nullptr ? std::string() : *found;
    };
    const auto number = [&model](std::string_view name) {
      constexpr std::int64_t kMost = std::int64_t{1} << 62;
      return static_cast<std::uint64_t>(model.integer(name, 0, kMost).value_or(0));
    };
    ModelRow row;
    row.name = text("id");
    row.architecture = text("architecture");
    row.state = text("state");
    row.error = text("error");
    row.bytes = number("size_bytes");
    row.parameters = number("parameters");
    row.context = static_cast<std::uint32_t>(number("context_length"));
    row.generates = model.boolean("generates").value_or(false);
    row.embeds = model.boolean("embeds").value_or(false);
    row.cut_anywhere = model.boolean("cut_anywhere").value_or(true);
    rows.push_back(std::move(row));
  }
  return rows;
}

int run_model_command(std::span<const std::string> arguments, const std::string& executable) {
  Result<Options> options = parse(arguments);
  if (!options) {
    fmt::print(stderr, "lares model: {}\n", options.error().message);
    return 2;
  }
  if (options->help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  options->executable = executable;
  if (const Result<> done = run(*options); !done) {
    fmt::print(stderr, "lares model: {}\n", done.error().message);
    return done.error().code == Code::Invalid ? 2 : 1;
  }
  return 0;
}

}  // namespace lares::app
