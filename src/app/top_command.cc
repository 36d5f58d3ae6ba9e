#include "app/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>
#include <csignal>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>

#include <fmt/format.h>

#include "app/chat_client.h"
#include "app/config.h"
#include "app/run_verb.h"
#include "app/top_screen.h"
#include "core/text.h"
#include "store/folder_lock.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares top [--once] [--json]\n"
    "\n"
    "  What the device does, whose turn it is, who waits and why; `q` or Ctrl-C ends it.\n"
    "  --once        One look, and no more; also when the output is no terminal.\n"
    "  --json        With --once: for programs.\n"
    "  --server URL  Default the server of the data folder, or http://127.0.0.1:8080.\n"
    "  --data DIR    Default $XDG_DATA_HOME/lares or ~/.local/share/lares.\n"
    "  --key KEY     Where the server asks for one; default $LARES_KEY.\n";

constexpr std::array<std::string_view, 6> kFlags{"--once", "--json", "--server",
                                                 "--data", "--key",  "--help"};
constexpr int kEveryMs = 1000;

struct Options {
  std::string server, key;
  std::string data = default_data_folder();
  bool once = false, json = false, help = false;
};

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  if (const char* key = std::getenv("LARES_KEY")) options.key = key;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    bool* const flag = name == "--once"                   ? &options.once
                       : name == "--json"                 ? &options.json
                       : name == "--help" || name == "-h" ? &options.help
                                                          : nullptr;
    std::string* const value = name == "--server" ? &options.server
                               : name == "--data" ? &options.data
                               : name == "--key"  ? &options.key
                                                  : nullptr;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    if (value == nullptr) {
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", name, suggestion(name, kFlags)));
    }
    if (equals == std::string::npos && i + 1 == arguments.size())
      return fail(Code::Invalid, name + " needs a value after it");
    *value = equals == std::string::npos ? arguments[++i] : arguments[i].substr(equals + 1);
  }
  if (options.json && !options.once)
    return fail(Code::Invalid, "--json goes with --once: `lares top --once --json`");
  if (!options.server.empty()) TRY(parse_server_address(options.server));
  return options;
}

std::string clock_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 16> out{};
  return {out.data(), std::strftime(out.data(), out.size(), "%H:%M:%S", &parts)};
}

Result<> look(const ChatClient& client, TopScreen& screen) {
  TRY_VOID(screen.take_me(TRY(client.get("/v1/me"))));
  TRY_VOID(
      screen.take_timeline(TRY(client.get(fmt::format("/v1/timeline?since={}", screen.next())))));
  TRY_VOID(screen.take_queue(TRY(client.get("/v1/queue"))));
  TRY_VOID(screen.take_memory(TRY(client.get("/v1/memory"))));
  return screen.take_models(TRY(client.get("/v1/models")));
}

TopScreen::Size window_size(bool colours) {
  TopScreen::Size size{.colours = colours};
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0) {
    size.columns = window.ws_col;
    size.rows = window.ws_row;
  }
  return size;
}

// The other screen, without a cursor and without an echo; all of it is put back at the end.
class FullScreen {
 public:
  FullScreen() {
    if (::tcgetattr(STDIN_FILENO, &before_) == 0) {
      termios quiet = before_;
      quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
    }
    fmt::print("\x1b[?1049h\x1b[?25l");
    std::fflush(stdout);
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;
  ~FullScreen() {
    fmt::print("\x1b[?25h\x1b[?1049l");
    std::fflush(stdout);
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  static void draw(const std::vector<std::string>& lines) {
    std::string out = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i)
      out += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
    fmt::print("{}\x1b[J", out);
    std::fflush(stdout);
  }

 private:
  termios before_{};
  bool changed_ = false;
};

// Signals that end it or that tell of another size, as a file descriptor.
int signals_fd() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGTSTP, SIG_IGN);
  return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

enum class Next : std::uint8_t { Look, Draw, End };

// Until it is time to look again, or somebody wants something.
Next wait_for_next(int signals) {
  std::array<pollfd, 2> fds{{{signals, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
  if (::poll(fds.data(), fds.size(), kEveryMs) <= 0) return Next::Look;
  signalfd_siginfo info{};
  while (::read(signals, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGWINCH) return Next::End;
  }
  if (fds[1].revents == 0) return Next::Draw;
  char key = 0;
  const ssize_t got = ::read(STDIN_FILENO, &key, 1);
  return got <= 0 || key == 'q' || key == 'Q' ? Next::End : Next::Look;
}

int watch(const ServerAddress& server, const Options& options, TopScreen& screen) {
  const int signals = signals_fd();
  const ChatClient client(server, options.key, "", signals);
  const bool colours = std::getenv("NO_COLOR") == nullptr;
  const FullScreen full;
  Next next = Next::Look;
  std::string trouble;
  while (next != Next::End) {
    if (next == Next::Look) {
      const auto looked = look(client, screen);
      // A signal interrupts it; which one, is told below.
      trouble = looked || looked.error().code == Code::Io ? "" : looked.error().message;
    }
    FullScreen::draw(screen.lines(window_size(colours), clock_text(), trouble));
    next = wait_for_next(signals);
  }
  return 0;
}

Result<int> run(const Options& options) {
  std::string url = options.server;
  if (url.empty()) url = store::server_of(options.data).value_or("http://127.0.0.1:8080");
  const ServerAddress server = TRY(parse_server_address(url));
  TopScreen screen(url);
  if (!options.once && ::isatty(STDOUT_FILENO) == 1 && ::isatty(STDIN_FILENO) == 1)
    return watch(server, options, screen);
  TRY_VOID(look(ChatClient(server, options.key, "", -1), screen));
  if (options.json) {
    fmt::print("{}\n", screen.to_json());
    return 0;
  }
  TopScreen::Size size = window_size(false);
  size.rows = 10000;
  for (const std::string& line : screen.lines(size, clock_text(), "")) fmt::print("{}\n", line);
  return 0;
}

}  // namespace

int run_top_command(std::span<const std::string> arguments) {
  return run_verb("top", kHelp, parse(arguments), run);
}

}  // namespace lares::app
