#include "app/share_command.h"

#include <array>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "app/chat_client.h"
#include "app/config.h"
#include "app/run_verb.h"
#include "core/json.h"
#include "core/text.h"
#include "store/folder_lock.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares share lat:ID MEMBER   lets MEMBER use a latent that you keep\n"
    "\n"
    "  --server URL   Default the server of the data folder, or http://127.0.0.1:8080.\n"
    "  --data DIR     Default $XDG_DATA_HOME/lares or ~/.local/share/lares.\n"
    "  --key KEY      Where the server asks for one; default $LARES_KEY.\n";

struct Options {
  std::string handle, member, key, server;
  std::string data = default_data_folder();
  bool help = false;
};

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  if (const char* key = std::getenv("LARES_KEY")) options.key = key;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.starts_with('-')) {
      words.push_back(word);
      continue;
    }
    if (word == "--help" || word == "-h") {
      options.help = true;
      return options;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    std::string* const value = name == "--server" ? &options.server
                               : name == "--key"  ? &options.key
                               : name == "--data" ? &options.data
                                                  : nullptr;
    if (value == nullptr) {
      constexpr std::array<std::string_view, 4> kFlags{"--server", "--key", "--data", "--help"};
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", name, suggestion(name, kFlags)));
    }
    if (equals == std::string::npos && i + 1 == arguments.size())
      return fail(Code::Invalid, name + " needs a value after it");
    *value = equals == std::string::npos ? arguments[++i] : word.substr(equals + 1);
  }
  if (words.size() != 2) return fail(Code::Invalid, "write `lares share lat:ID MEMBER`");
  options.handle = words[0].starts_with("lat:") ? words[0].substr(4) : words[0];
  options.member = words[1];
  if (options.handle.empty() ||
      options.handle.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") != std::string::npos)
    return fail(Code::Invalid, fmt::format("`{}` is no handle like lat:3f9c", words[0]));
  return options;
}

Result<> share(const Options& options) {
  std::string url = options.server;
  if (url.empty()) url = store::server_of(options.data).value_or("http://127.0.0.1:8080");
  const ChatClient client(TRY(parse_server_address(url)), options.key, "", -1);
  TRY(client.post(fmt::format("/v1/latents/{}/share", options.handle),
                  json::to_text(json::Value(json::Object{{"member", options.member}}))));
  fmt::print("{} may use lat:{}\n", options.member, options.handle);
  return {};
}

}  // namespace

int run_share_command(std::span<const std::string> arguments) {
  return run_verb("share", kHelp, parse(arguments), share, Code::Unavailable);
}

}  // namespace lares::app
