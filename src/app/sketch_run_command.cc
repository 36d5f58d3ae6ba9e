#include "app/sketch_run_command.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "app/chat_client.h"
#include "app/run_verb.h"
#include "core/base64.h"
#include "core/json.h"
#include "core/text.h"

namespace lares::app {
namespace {

constexpr std::size_t kFileBytesMax = 64U << 20U;
constexpr std::array<std::string_view, 4> kFlags{"--server", "--key", "--out", "--json"};

struct Options {
  std::string action, file, server = "http://127.0.0.1:8080", key, out = ".";
  std::vector<std::pair<std::string, std::string>> inputs;
};

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  if (const char* key = std::getenv("LARES_KEY")) options.key = key;
  options.action = arguments[0];
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (!word.starts_with("--")) {
      if (options.file.empty()) {
        options.file = word;
      } else if (equals != std::string::npos && options.action == "run") {
        options.inputs.emplace_back(name, word.substr(equals + 1));
      } else {
        return fail(Code::Invalid, fmt::format("`{}` is no input; write NAME=TEXT", word));
      }
      continue;
    }
    if (name == "--json") continue;  // The server's answer is JSON.
    std::string* const value = name == "--server" ? &options.server
                               : name == "--key"  ? &options.key
                               : name == "--out"  ? &options.out
                                                  : nullptr;
    if (value == nullptr) {
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", name, suggestion(name, kFlags)));
    }
    if (equals == std::string::npos && i + 1 == arguments.size())
      return fail(Code::Invalid, name + " needs a value after it");
    *value = equals == std::string::npos ? arguments[++i] : word.substr(equals + 1);
  }
  if (options.file.empty())
    return fail(Code::Invalid, fmt::format("write `lares sketch {} FILE`", options.action));
  return options;
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream opened;
  if (path != "-") {
    opened.open(path, std::ios::binary);
    if (!opened || std::filesystem::is_directory(path))
      return fail(Code::NotFound, fmt::format("{} cannot be read", path));
  }
  std::istream& in = path == "-" ? std::cin : opened;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.size() > kFileBytesMax)
    return fail(Code::TooLarge, fmt::format("{} has more than {} bytes", path, kFileBytesMax));
  return text;
}

Result<> write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
  if (out.flush()) return {};
  return fail(Code::Io, fmt::format("{} cannot be written", path.string()));
}

Result<std::string> request_body(const Options& options) {
  const std::string source = TRY(read_file(options.file));
  const std::size_t first = source.find_first_not_of(" \t\r\n");
  json::Object body;
  if (first != std::string::npos && source[first] == '{') {
    body.emplace_back("sketch", TRY(json::parse(source)));
  } else {
    body.emplace_back("sketch", source);
  }
  json::Object inputs;
  for (const auto& [name, value] : options.inputs) {
    if (!value.starts_with('@')) {
      inputs.emplace_back(name, value);
      continue;
    }
    const std::string bytes = TRY(read_file(value.substr(1)));
    if (value.ends_with(".png")) {
      inputs.emplace_back(name, json::Object{{"png", base64_of(bytes)}});
    } else {
      inputs.emplace_back(name, bytes);
    }
  }
  body.emplace_back("inputs", std::move(inputs));
  return json::to_text(json::Value(std::move(body)));
}

std::string text_at(const json::Value& value, std::string_view name) {
  const json::Value* found = value.find(name);
  const auto* text = found == nullptr ? nullptr : found->as<std::string>();
  return text == nullptr ? std::string() : *text;
}

void show_progress(const json::Value& event) {
  const json::Value* step = event.find("step");
  const json::Value* total = event.find("total");
  if (step == nullptr || total == nullptr || ::isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r  step {} of {}  ", step->integer().value_or(0),
             total->integer().value_or(0));
}

Result<> save_files(const ChatClient& client, const json::Value& status, const Options& options) {
  const std::filesystem::path folder(options.out);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const json::Value* outputs = status.find("outputs");
  const auto* list = outputs == nullptr ? nullptr : outputs->as<json::Array>();
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const json::Value& file = (*list)[i];
    const std::string bytes = TRY(client.get(text_at(file, "url")));
    const std::filesystem::path path =
        folder / fmt::format("{}.{}", i + 1, text_at(file, "medium"));
    TRY_VOID(write_file(path, bytes));
    fmt::print("{}\n", path.string());
  }
  const json::Value* kept = status.find("kept");
  const auto* handles = kept == nullptr ? nullptr : kept->as<json::Array>();
  for (std::size_t i = 0; handles != nullptr && i < handles->size(); ++i)
    fmt::print("{} {}\n", text_at((*handles)[i], "name"), text_at((*handles)[i], "handle"));
  const json::Value* record = status.find("record");
  if (record == nullptr) return {};
  return write_file(folder / "record.json", json::to_text(*record) + '\n');
}

Result<int> run(const Options& options) {
  const ChatClient client(TRY(parse_server_address(options.server)), options.key, "", -1);
  const std::string body = TRY(request_body(options));
  if (options.action == "check") {
    fmt::print("{}\n", TRY(client.post("/v1/sketches/check", body)));
    return 0;
  }
  const json::Value taken = TRY(json::parse(TRY(client.post("/v1/sketches", body))));
  json::Value last;
  TRY_VOID(client.follow(fmt::format("/v1/sketches/{}/events", text_at(taken, "id")),
                         [&last](const std::string& data) {
                           auto event = json::parse(data);
                           if (!event) return;
                           show_progress(*event);
                           if (event->find("status") != nullptr) last = std::move(*event);
                         }));
  if (::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r");
  if (text_at(last, "status") != "done") {
    const json::Value* error = last.find("error");
    return fail(Code::Conflict, fmt::format("the sketch ended as {}: {}", text_at(last, "status"),
                                            error == nullptr ? "" : text_at(*error, "message")));
  }
  TRY_VOID(save_files(client, last, options));
  return 0;
}

}  // namespace

int run_sketch_on_server(std::span<const std::string> arguments) {
  return run_verb("sketch", "", parse(arguments), run, Code::Unavailable);
}

}  // namespace lares::app
