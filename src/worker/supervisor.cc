#include "worker/supervisor.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "core/text.h"
#include "worker/memory_kills.h"
#include "worker/probe_result.h"
#include "worker/process.h"

namespace lares::worker {
namespace {

// A descriptor closed at the end of its block.
class OwnFd {
 public:
  explicit OwnFd(int fd) : fd_(fd) {}
  OwnFd(const OwnFd&) = delete;
  OwnFd& operator=(const OwnFd&) = delete;
  ~OwnFd() { close(); }

  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

class ProcessWorker : public Worker {
 public:
  ProcessWorker(Process process, int fd) : channel_(fd), process_(std::move(process)) {}

  Channel& channel() override { return channel_; }
  pid_t pid() const override { return process_.pid(); }
  void kill() override { process_.kill(); }

 private:
  Channel channel_;
  Process process_;  // Ends before the channel is closed.
};

enum class Ending : unsigned char { Closed, TooLong, TooMuch };

// Reads all that the child writes until it closes its end.
Ending read_until_closed(int fd, std::chrono::steady_clock::time_point until, std::string& out) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Ending::TooLong;
    pollfd waiting{fd, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready == 0) return Ending::TooLong;
    char bytes[4096];
    const ssize_t n = ready < 0 ? -1 : ::read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Ending::Closed;
    out.append(bytes, static_cast<std::size_t>(n));
    if (out.size() > kProbeResultMax) return Ending::TooMuch;
  }
}

class ProcessWorkers : public WorkerFactory {
 public:
  explicit ProcessWorkers(ProcessOptions options) : options_(std::move(options)) {}

  Result<std::unique_ptr<Worker>> start(Kind kind) override {
    const std::pair<int, int> ends = TRY(socket_pair());
    OwnFd ours(ends.first);
    const OwnFd theirs(ends.second);
    std::vector<std::string> arguments =
        common_arguments(kind == Kind::Device ? "--device" : "--text");
    if (kind == Kind::Device) {
      arguments.insert(arguments.end(), options_.device_arguments.begin(),
                       options_.device_arguments.end());
    }
    Process process = TRY(Process::start(options_.executable, arguments, theirs.get()));
    return std::make_unique<ProcessWorker>(std::move(process), ours.release());
  }

  Result<engine::ModelInfo> probe(const std::string& path) override {
    const std::pair<int, int> ends = TRY(socket_pair());
    const OwnFd ours(ends.first);
    OwnFd theirs(ends.second);
    std::vector<std::string> arguments = common_arguments("--probe");
    arguments.push_back(path);
    Process process = TRY(Process::start(options_.executable, arguments, theirs.get()));
    theirs.close();  // So that the end of the child is the end of the stream.

    std::string bytes;
    const auto until = std::chrono::steady_clock::now() + options_.probe_limit;
    const Ending ending = read_until_closed(ours.get(), until, bytes);
    // Also after the end of the stream: a child that closes it on its way out has its status
    // already and keeps it, and one that closed it and goes on is ended.
    process.kill();
    const std::string how = process.wait();
    if (ending == Ending::TooLong) {
      return fail(Code::Corrupt,
                  fmt::format("opening {} took longer than {}; the file is damaged, or its disk is "
                              "very slow",
                              path, format_duration(options_.probe_limit)));
    }
    if (ending == Ending::TooMuch || how != "ended with status 0") {
      return fail(Code::Corrupt,
                  fmt::format("the process that opened {} {}; the file is damaged, or of a kind "
                              "that this release cannot read",
                              path, ending == Ending::TooMuch ? "talked too much" : how));
    }
    return decode_probe_result(bytes);
  }

  std::uint64_t memory_kills() override { return count_memory_kills(); }

 private:
  [[nodiscard]] std::vector<std::string> common_arguments(const char* verb) const {
    return {"worker",
            "--fd",
            std::to_string(Process::kChildFd),
            "--parent",
            std::to_string(::getpid()),
            "--engine",
            options_.engine,
            verb};
  }

  ProcessOptions options_;
};

}  // namespace

std::unique_ptr<WorkerFactory> process_workers(ProcessOptions options) {
  return std::make_unique<ProcessWorkers>(std::move(options));
}

}  // namespace lares::worker
