#include "app/sketch_command.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "app/config.h"
#include "app/image_folder.h"
#include "app/model_folder.h"
#include "app/sketch_run_command.h"
#include "core/text.h"
#include "sketch/json_form.h"
#include "sketch/parser.h"
#include "sketch/planner.h"
#include "sketch/printer.h"
#include "worker/process.h"
#include "worker/supervisor.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares sketch check FILE   what the sketch means and costs, without running anything: its "
    "stages\n"
    "                          with their types, batch and cache keys and prices\n"
    "lares sketch fmt FILE     the sketch in its canonical form\n"
    "lares sketch run FILE [NAME=TEXT | NAME=@FILE.png ...] --out DIR   makes what the sketch says "
    "on\n"
    "                          a running server: its files and record.json, into DIR\n"
    "\n"
    "FILE holds a sketch as text or as JSON; `-` is standard input. docs/sketches.md explains the\n"
    "language. A faulty sketch ends with status 1 and what is wrong with it.\n"
    "\n"
    "  --json          check: the plan, or {\"errors\": [...]}; fmt: the canonical JSON.\n"
    "  --write         fmt: into the file, instead of printing it.\n"
    "  --models DIR    The models to plan with; default the folder `models` in --data.\n"
    "  --data DIR      The server's data folder; default $XDG_DATA_HOME/lares or\n"
    "                  ~/.local/share/lares.\n"
    "  --memory SIZE   The device's, as in 8GiB; without it nothing is too large for it.\n"
    "  --server URL    run: the server; default http://127.0.0.1:8080. check --json: asks that "
    "server,\n"
    "                  which knows prices and what is cached.\n"
    "  --key KEY       Where the server asks for one; default $LARES_KEY.\n"
    "  --out DIR       run: where to; default the folder that it is called in.\n";

constexpr std::array<std::string_view, 3> kActions{"check", "fmt", "run"};
constexpr std::array<std::string_view, 6> kFlags{"--json", "--write",  "--models",
                                                 "--data", "--memory", "--help"};
// Some times what the language allows, so that its own limit is what is told.
constexpr std::size_t kBytesMax = 16U << 20U;

struct Options {
  std::string action, file, models, executable;
  std::string data = default_data_folder();
  Bytes memory{};
  bool json = false, write = false, help = false;

  [[nodiscard]] std::string folder() const { return models.empty() ? data + "/models" : models; }
};

Result<> set_flag(Options& options, std::string_view flag, const std::string& value) {
  if (flag == "--memory") {
    const auto bytes = parse_bytes(value);
    if (!bytes || *bytes <= 0) {
      return fail(Code::Invalid, fmt::format("--memory: `{}` is no size, as in 8GiB", value));
    }
    options.memory = Bytes{*bytes};
  } else {
    (flag == "--models" ? options.models : options.data) = value;
  }
  return {};
}

Result<> check_words(const std::vector<std::string>& words) {
  if (words.empty()) {
    return fail(Code::Invalid, "say what to do: check, fmt or run; `lares sketch --help` explains");
  }
  if (std::ranges::find(kActions, words[0]) == kActions.end()) {
    return fail(Code::Invalid, fmt::format("there is no `lares sketch {}`.{}", words[0],
                                           suggestion(words[0], kActions)));
  }
  if (words.size() == 2) return {};
  return fail(Code::Invalid, fmt::format("write `lares sketch {} FILE`", words[0]));
}

Result<Options> parse_options(std::span<const std::string> arguments) {
  Options options;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with('-') || argument == "-") {
      words.push_back(argument);
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--write") {
      options.write = true;
    } else if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else {
      const std::size_t equals = argument.find('=');
      const std::string flag = argument.substr(0, equals);
      if (std::ranges::find(kFlags, flag) == kFlags.end()) {
        return fail(Code::Invalid,
                    fmt::format("there is no flag `{}`.{}", flag, suggestion(flag, kFlags)));
      }
      if (equals == std::string::npos && i + 1 == arguments.size()) {
        return fail(Code::Invalid, flag + " needs a value after it");
      }
      TRY_VOID(
          set_flag(options, flag,
                   equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1)));
    }
  }
  if (options.help) return options;
  TRY_VOID(check_words(words));
  options.action = words[0];
  options.file = words[1];
  if (options.write && (options.action != "fmt" || options.file == "-")) {
    return fail(Code::Invalid, "--write is for `lares sketch fmt FILE`");
  }
  return options;
}

Result<std::string> read_source(const std::string& file) {
  std::ifstream opened;
  if (file != "-") {
    opened.open(file, std::ios::binary);
    if (!opened || std::filesystem::is_directory(file)) {
      return fail(Code::NotFound, fmt::format("{} cannot be read", file));
    }
  }
  std::istream& in = file == "-" ? std::cin : opened;
  std::string text(kBytesMax, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

sketch::Parsed read_sketch(const std::string& source) {
  const std::size_t first = source.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && source[first] == '{';
  return json ? sketch::read_json(source) : sketch::parse(source);
}

Answer faulty(const sketch::Problems& problems, bool json) {
  if (json) return {sketch::to_json(problems) + '\n', false};
  Answer answer;
  for (const sketch::Problem& problem : problems) answer.text += sketch::to_text(problem) + '\n';
  return answer;
}

Result<int> run(const Options& options) {
  const std::string source = TRY(read_source(options.file));
  Answer answer;
  if (options.action == "fmt") {
    answer = format_sketch(source, options.json);
  } else {
    std::string left_out;
    sketch::Catalogue catalogue = folder_catalogue(options.folder(), options.executable, left_out);
    catalogue.device_memory = options.memory;
    fmt::print(stderr, "{}", left_out);
    answer = check_sketch(source, catalogue, options.json);
  }
  if (options.write && answer.sound) {
    std::ofstream out(options.file, std::ios::binary | std::ios::trunc);
    out << answer.text;
    if (!out.flush()) return fail(Code::Io, fmt::format("{} cannot be written", options.file));
    return 0;
  }
  // In JSON, errors are the answer.
  fmt::print(answer.sound || options.json ? stdout : stderr, "{}", answer.text);
  return answer.sound ? 0 : 1;
}

}  // namespace

sketch::Catalogue folder_catalogue(const std::string& folder, const std::string& executable,
                                   std::string& left_out) {
  sketch::Catalogue catalogue;
  for (const std::string& path : find_image_models(folder)) {
    auto model = read_image_model(path);
    if (model) {
      catalogue.models.push_back(std::move(*model));
    } else {
      left_out += fmt::format("lares sketch: left out: {}\n", model.error().message);
    }
  }
  const auto found = find_models(folder);
  if (!found) {
    left_out += fmt::format("lares sketch: {}\n", found.error().message);
    return catalogue;
  }
  worker::ProcessOptions processes;
  processes.executable = executable;
  const auto workers = worker::process_workers(std::move(processes));
  for (const FoundModel& file : *found) {
    const auto info = workers->probe(file.path);
    if (!info) {
      left_out += fmt::format("lares sketch: left out: {}: {}\n", file.name, info.error().message);
      continue;
    }
    sketch::Model model{.name = file.name, .weights = info->weights, .dtypes = {"gguf"}};
    model.kind = info->can.generates ? sketch::ModelKind::Chat : sketch::ModelKind::Embed;
    model.embeds = info->can.embeds;
    model.embedding_width = info->embedding;
    model.digest = sketch::digest_of(
        fmt::format("{} {} {}", file.path, info->description, info->weights.count));
    if (info->can.generates || info->can.embeds) catalogue.models.push_back(std::move(model));
  }
  return catalogue;
}

Answer check_sketch(const std::string& source, const sketch::Catalogue& catalogue, bool json) {
  const sketch::Parsed parsed = read_sketch(source);
  if (!parsed.problems.empty()) return faulty(parsed.problems, json);
  const sketch::Planned planned = sketch::make_plan(parsed.sketch, catalogue);
  if (!planned.problems.empty()) return faulty(planned.problems, json);
  return {json ? sketch::to_json(planned.plan) + '\n' : sketch::to_text(planned.plan), true};
}

Answer format_sketch(const std::string& source, bool json) {
  const sketch::Parsed parsed = read_sketch(source);
  if (!parsed.problems.empty()) return faulty(parsed.problems, json);
  return {json ? sketch::to_json(parsed.sketch) + '\n' : sketch::print(parsed.sketch), true};
}

int run_sketch_command(std::span<const std::string> arguments, const std::string& executable) {
  const bool asks_server = std::ranges::any_of(
      arguments, [](const std::string& word) { return word.starts_with("--server"); });
  if (!arguments.empty() && (arguments[0] == "run" || (arguments[0] == "check" && asks_server)))
    return run_sketch_on_server(arguments);
  Result<Options> options = parse_options(arguments);
  if (!options) {
    fmt::print(stderr, "lares sketch: {}\n", options.error().message);
    return 2;
  }
  if (options->help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  options->executable = executable;
  const Result<int> done = run(*options);
  if (!done) {
    fmt::print(stderr, "lares sketch: {}\n", done.error().message);
    return 2;
  }
  return *done;
}

}  // namespace lares::app
