#include "app/chat_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "app/chat_client.h"
#include "app/chat_session.h"
#include "core/text.h"

namespace lares::app {
namespace {

constexpr std::string_view kHelp =
    "lares chat [FLAGS]             chat with a running server\n"
    "lares chat -m \"one question\"   print the answer and end\n"
    "... | lares chat               the same, the question coming from a pipe\n"
    "... | lares chat -m TEXT -     TEXT, then what comes from the pipe\n"
    "\n"
    "  -m, --message TEXT  Ask this alone.\n"
    "  --model NAME        The server's default otherwise.\n"
    "  --system TEXT       What the model is told before everything else.\n"
    "  --history FILE      Goes on with what is in FILE, and adds to it. Nothing is written "
    "without.\n"
    "  --class C           Class of service, within what the key allows.\n"
    "  --server URL        Default http://127.0.0.1:8080.\n"
    "  --key KEY           Where the server asks for one; default $LARES_KEY.\n";

constexpr std::string_view kCommands =
    "/model NAME   ask another model; /model alone lists them\n"
    "/system TEXT  what the model is told before everything else; /system alone forgets it\n"
    "/clear        forget the conversation\n"
    "/save FILE    write it to FILE, for --history\n"
    "/quit         end; so does Ctrl-D. Ctrl-C ends an answer, or drops what is being typed\n"
    "A line that ends with \\ goes on in the next one, and so does everything between two lines "
    "of\n"
    "\"\"\". A message that begins with / is written with two.\n";

constexpr std::array<std::string_view, 8> kFlags{"--message", "--model",  "--system", "--history",
                                                 "--class",   "--server", "--key",    "--help"};
constexpr std::array<std::string_view, 6> kNames{"help",  "model", "system",
                                                 "clear", "save",  "quit"};
constexpr int kInterrupted = 130;  // As a shell counts SIGINT.

struct Options {
  std::optional<std::string> message;
  std::string model, system, history, cls, key;
  ServerAddress server;
  bool pipe = false;  // A lone "-".
  bool help = false;
};

Result<> set_flag(Options& options, std::string_view flag, std::string value) {
  if (flag == "--message" || flag == "-m") {
    options.message = std::move(value);
  } else if (flag == "--model") {
    options.model = std::move(value);
  } else if (flag == "--system") {
    options.system = std::move(value);
  } else if (flag == "--history") {
    options.history = std::move(value);
  } else if (flag == "--class") {
    options.cls = std::move(value);
  } else if (flag == "--key") {
    options.key = std::move(value);
  } else {
    options.server = TRY(parse_server_address(value));
  }
  return {};
}

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  if (const char* key = std::getenv("LARES_KEY")) options.key = key;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::size_t equals = argument.find('=');
    const std::string flag = argument.starts_with("--") ? argument.substr(0, equals) : argument;
    if (argument == "-") {
      options.pipe = true;
    } else if (flag == "--help" || flag == "-h") {
      options.help = true;
    } else if (flag == "-m" || std::ranges::find(kFlags, flag) != kFlags.end()) {
      const bool inside = flag.size() < argument.size();
      if (!inside && i + 1 == arguments.size()) {
        return fail(Code::Invalid, flag + " needs a value after it");
      }
      TRY_VOID(set_flag(options, flag, inside ? argument.substr(equals + 1) : arguments[++i]));
    } else {
      return fail(Code::Invalid,
                  fmt::format("there is no flag `{}`.{}", argument, suggestion(flag, kFlags)));
    }
  }
  return options;
}

// Ctrl-C writes a byte into a pipe, which every wait looks at: nothing else happens in a handler.
class Interrupts {
 public:
  Interrupts() {
    if (::pipe2(fds_.data(), O_CLOEXEC | O_NONBLOCK) != 0) fds_ = {-1, -1};
    write_fd_ = fds_[1];
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int before = errno;
      [[maybe_unused]] const auto written = ::write(write_fd_, "", 1);
      errno = before;
    };
    ::sigaction(SIGINT, &action, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts() {
    ::signal(SIGINT, SIG_DFL);
    for (const int fd : fds_) ::close(fd);
  }
  [[nodiscard]] int fd() const { return fds_[0]; }
  // True if there was one since the last call.
  [[nodiscard]] bool take() const {
    std::array<char, 64> buffer{};
    bool any = false;
    while (::read(fds_[0], buffer.data(), buffer.size()) > 0) any = true;
    return any;
  }

 private:
  static inline volatile int write_fd_ = -1;
  std::array<int, 2> fds_{-1, -1};
};

enum class Typed : std::uint8_t { Line, End, Interrupted };

// Lines from standard input, between which Ctrl-C is noticed.
class LineReader {
 public:
  explicit LineReader(const Interrupts& interrupts) : interrupts_(interrupts) {}

  Typed next(std::string& line) {
    while (true) {
      if (const std::size_t end = in_.find('\n'); end != std::string::npos) {
        line = in_.substr(0, end);
        in_.erase(0, end + 1);
        return Typed::Line;
      }
      std::array<pollfd, 2> fds{{{STDIN_FILENO, POLLIN, 0}, {interrupts_.fd(), POLLIN, 0}}};
      if (::poll(fds.data(), fds.size(), -1) < 0) continue;  // The signal; its byte is there now.
      if (fds[1].revents != 0 && interrupts_.take()) {
        in_.clear();
        return Typed::Interrupted;
      }
      std::array<char, 4096> buffer{};
      const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        line = std::exchange(in_, {});
        return line.empty() ? Typed::End : Typed::Line;
      }
      in_.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }

 private:
  const Interrupts& interrupts_;
  std::string in_;
};

Result<std::string> file_text(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr && errno == ENOENT) return std::string();
  if (file == nullptr) return fail(Code::Io, fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text;
  std::array<char, 65536> buffer{};
  for (std::size_t got = 1; got > 0;) {
    got = std::fread(buffer.data(), 1, buffer.size(), file);
    text.append(buffer.data(), got);
  }
  std::fclose(file);
  return text;
}

// For the eyes of its owner alone: conversations are private.
Result<> write_file(const std::string& path, std::string_view text, int how) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0600);
  if (fd < 0) return fail(Code::Io, fmt::format("{}: {}", path, std::strerror(errno)));
  bool good = true;
  while (good && !text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    good = written > 0;
    if (good) text.remove_prefix(static_cast<std::size_t>(written));
  }
  const int why = errno;
  ::close(fd);
  if (!good) return fail(Code::Io, fmt::format("{}: {}", path, std::strerror(why)));
  return {};
}

class Chat {
 public:
  explicit Chat(const Options& options)
      : options_(options),
        client_(options.server, options.key, options.cls, interrupts_.fd()),
        to_terminal_(::isatty(STDOUT_FILENO) == 1) {
    session_.model = options.model;
    session_.system = options.system;
  }

  // One question; returns the exit status.
  int ask_once(const std::string& question) {
    const auto answered = ask(question);
    if (!answered) {
      fmt::print(stderr, "lares chat: {}\n", answered.error().message);
      return 1;
    }
    return *answered ? 0 : kInterrupted;
  }

  int converse() {
    fmt::print("Type a message; /help explains, /quit ends.\n");
    LineReader reader(interrupts_);
    MessageLines message;
    std::string line;
    while (!quit_) {
      fmt::print("{}", message.pending() ? ". " : "> ");
      std::fflush(stdout);
      const Typed typed = reader.next(line);
      if (typed == Typed::End) break;
      if (typed == Typed::Interrupted) {
        (void)message.take();
        fmt::print("\n");
        continue;
      }
      if (!message.pending()) {
        if (const auto command = parse_chat_command(line)) {
          obey(*command);
          continue;
        }
      }
      if (!message.add(line)) continue;
      if (const auto answered = ask(message.take()); !answered) {
        fmt::print("{}\n", answered.error().message);
      }
    }
    if (!quit_) fmt::print("\n");
    return 0;
  }

  Result<> read_history() {
    if (options_.history.empty()) return {};
    const auto read = session_.read_text(TRY(file_text(options_.history)));
    if (read) return {};
    return fail(read.error().code, fmt::format("{}: {}", options_.history, read.error().message));
  }

 private:
  // True if it was answered whole, false if interrupted; what had come then stays.
  Result<bool> ask(const std::string& question) {
    session_.add("user", question);
    (void)interrupts_.take();
    Said last = Said::Text;
    const auto show = [this, &last](Said said, std::string_view text) {
      if (said == Said::Thought && !to_terminal_) return;  // A pipe gets the answer alone.
      // What the model thinks is dim, and not remembered.
      if (said != last) fmt::print("{}", said == Said::Thought ? "\x1b[2m" : "\x1b[22m\n");
      last = said;
      fmt::print("{}", to_terminal_ ? terminal_safe(text) : std::string(text));
      std::fflush(stdout);
    };
    auto answer = client_.ask(session_.request_body(), show);
    if (last == Said::Thought) fmt::print("\x1b[22m");
    if (!answer) {
      session_.drop_last();
      return tl::unexpected(std::move(answer.error()));
    }
    const bool cut = answer->interrupted || answer->finish == "length";
    fmt::print("\n");
    if (cut) {
      fmt::print(stderr, "[{}]\n", answer->interrupted ? "cancelled" : "cut at its longest");
    }
    std::fflush(stdout);
    (void)interrupts_.take();
    if (answer->text.empty() && answer->interrupted) {
      session_.drop_last();
      return false;
    }
    session_.add("assistant", answer->text);
    if (!options_.history.empty()) {
      TRY_VOID(
          write_file(options_.history, session_.to_text(session_.lines().size() - 2), O_APPEND));
    }
    return !answer->interrupted;
  }

  void obey(const ChatCommand& command) {
    const std::string& argument = command.argument;
    if (command.name == "help") {
      fmt::print("{}", kCommands);
    } else if (command.name == "quit" || command.name == "exit") {
      quit_ = true;
    } else if (command.name == "clear") {
      session_.clear();
      fmt::print("forgotten\n");
    } else if (command.name == "system") {
      session_.system = argument;
      fmt::print("{}\n", argument.empty() ? "no system text any more" : "noted");
    } else if (command.name == "model") {
      choose_model(argument);
    } else if (command.name == "save") {
      save(argument);
    } else {
      fmt::print("there is no /{}.{} /help lists what there is\n", command.name,
                 suggestion(command.name, kNames));
    }
  }

  void choose_model(const std::string& name) {
    const auto models = client_.models();
    if (!models) {
      fmt::print("{}\n", models.error().message);
      return;
    }
    if (name.empty()) {
      for (const std::string& model : *models) {
        fmt::print("{} {}\n", model == session_.model ? "*" : " ", terminal_safe(model));
      }
    } else if (std::ranges::find(*models, name) != models->end()) {
      session_.model = name;
      fmt::print("asking {} from now on\n", name);
    } else {
      const std::vector<std::string_view> names(models->begin(), models->end());
      fmt::print("there is no model `{}`.{}\n", name, suggestion(name, names));
    }
  }

  void save(const std::string& path) {
    if (path.empty()) {
      fmt::print("write /save FILE\n");
    } else if (const auto saved = write_file(path, session_.to_text(), O_TRUNC); !saved) {
      fmt::print("{}\n", saved.error().message);
    } else {
      fmt::print("saved {} messages to {}\n", session_.lines().size(), path);
    }
  }

  const Options& options_;
  Interrupts interrupts_;
  ChatClient client_;
  ChatSession session_;
  bool to_terminal_;
  bool quit_ = false;
};

std::string all_of_stdin() {
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

int run(const Options& options) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  std::string question = options.message.value_or("");
  const bool once = options.message || options.pipe || !terminal;
  // Read before Ctrl-C is ours: until there is a question it ends the program, as anywhere.
  if (options.pipe || (!terminal && !options.message)) {
    const std::string piped = all_of_stdin();
    question += question.empty() || piped.empty() ? piped : "\n\n" + piped;
  }
  if (once && question.empty()) {
    fmt::print(stderr, "lares chat: the question is empty\n");
    return 2;
  }
  Chat chat(options);
  if (const auto read = chat.read_history(); !read) {
    fmt::print(stderr, "lares chat: {}\n", read.error().message);
    return 1;
  }
  return once ? chat.ask_once(question) : chat.converse();
}

}  // namespace

int run_chat_command(std::span<const std::string> arguments) {
  const Result<Options> options = parse(arguments);
  if (!options) {
    fmt::print(stderr, "lares chat: {}\n", options.error().message);
    return 2;
  }
  if (options->help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  return run(*options);
}

}  // namespace lares::app
