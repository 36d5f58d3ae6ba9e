#include "app/checkup.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "app/served_models.h"
#include "core/text.h"
#include "store/folder_lock.h"
#include "store/members.h"
#include "store/segments.h"
#include "worker/supervisor.h"

namespace lares::app {
namespace {

using Level = Finding::Level;

constexpr std::int64_t kFreeLeast = std::int64_t{1} << 30;  // Bytes on the data folder's disk.
constexpr double kFlushMost = 0.05;                         // Seconds.

// "MemAvailable" of /proc/meminfo, in bytes; 0 if it is not told.
std::int64_t memory_of(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name)) continue;
    return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct OpenFile {
  explicit OpenFile(const std::string& path)
      : path(path), fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
    ::unlink(path.c_str());
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // Whether so many bytes came through to the disk.
  [[nodiscard]] bool write(std::size_t bytes) const {
    const std::string zeros(std::min<std::size_t>(bytes, 1U << 20U), '\0');
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t n = ::write(fd, zeros.data(), std::min(zeros.size(), bytes - done));
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return ::fdatasync(fd) == 0;
  }

  std::string path;
  int fd;
};

}  // namespace

Finding check_processor() {
  const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  double load = 0;
  std::ifstream("/proc/loadavg") >> load;
  const std::string what =
      fmt::format("{} processor core{}, load {:.1f}", cores, cores == 1 ? "" : "s", load);
  if (load < cores * 0.75) return {Level::Well, what, ""};
  return {Level::Advice, what,
          "something else computes on this machine; steps take longer, and less predictably, while "
          "it does"};
}

Findings check_memory(const Config& config) {
  const std::int64_t total = memory_of("MemTotal:"), free = memory_of("MemAvailable:");
  Findings out{{Level::Well,
                fmt::format("{} of memory, {} of it free", format_bytes(total), format_bytes(free)),
                ""}};
  const auto asked = static_cast<std::int64_t>(config.device_memory + config.host_memory);
  if (asked > total) {
    out[0].level = Level::Problem;
    out[0].advice = fmt::format(
        "device.memory and device.host_memory come to {}, more than there is: lower them",
        format_bytes(asked));
  }
  return out;
}

Finding check_data_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const OpenFile probe(folder + fmt::format("/.doctor-{}", ::getpid()));
  if (failed || probe.fd < 0 || !probe.write(1)) {
    return {Level::Problem,
            fmt::format("the data folder {} cannot be written: {}", folder, std::strerror(errno)),
            "give the user that runs `lares serve` a folder of its own with --data"};
  }
  struct statvfs disk {};
  ::statvfs(folder.c_str(), &disk);
  const auto left = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize);
  std::string what = fmt::format("the data folder {} has {} left", folder, format_bytes(left));
  if (left >= kFreeLeast) return {Level::Well, std::move(what), ""};
  return {Level::Advice, std::move(what),
          "make room, or lower jobs.keep_bytes: with a full disk new jobs are refused (507)"};
}

Finding check_disk(const std::string& folder) {
  constexpr std::size_t kMiB = 16;
  const OpenFile file(folder + fmt::format("/.doctor-{}", ::getpid()));
  auto begin = std::chrono::steady_clock::now();
  if (!file.write(kMiB << 20U)) {
    return {Level::Problem, fmt::format("writing {} MiB failed: {}", kMiB, std::strerror(errno)),
            "make room on the data folder's disk"};
  }
  const double rate = static_cast<double>(kMiB) / seconds_since(begin);
  constexpr int kFlushes = 5;
  begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kFlushes; ++i) (void)file.write(4096);
  const double flush = seconds_since(begin) / kFlushes;
  std::string what =
      fmt::format("its disk writes {:.0f} MiB/s, and a flush takes {:.1f} ms", rate, flush * 1e3);
  if (flush <= kFlushMost) return {Level::Well, std::move(what), ""};
  return {Level::Advice, std::move(what),
          "a job is answered once it is on the disk, so each waits that long; put --data on a "
          "faster disk"};
}

Finding check_address(const Config& config) {
  if (const auto url = store::server_of(config.data)) {
    return {Level::Well, fmt::format("a server runs on this data folder, at {}", *url), ""};
  }
  const bool v6 = config.address.find(':') != std::string::npos;
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (v6) {
    auto& to = reinterpret_cast<sockaddr_in6&>(storage);
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(config.port);
    ::inet_pton(AF_INET6, config.address.c_str(), &to.sin6_addr);
    size = sizeof to;
  } else {
    auto& to = reinterpret_cast<sockaddr_in&>(storage);
    to.sin_family = AF_INET;
    to.sin_port = htons(config.port);
    ::inet_pton(AF_INET, config.address.c_str(), &to.sin_addr);
    size = sizeof to;
  }
  const int fd = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const int bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&storage), size);
  const int error = errno;
  ::close(fd);
  if (bound == 0) return {Level::Well, fmt::format("{} is free", config.listen), ""};
  return {Level::Problem,
          fmt::format("{} cannot be listened on: {}", config.listen, std::strerror(error)),
          error == EADDRINUSE ? "another program has it: end that, or choose a port with --listen"
                              : "choose an address of this machine with --listen"};
}

Findings check_models(const Config& config, const std::string& executable) {
  const auto served = served_models(config);
  if (!served) return {{Level::Problem, served.error().message, "put a GGUF file into the folder"}};
  worker::ProcessOptions options;
  options.executable = executable;
  options.engine = config.engine;
  const auto prober = worker::process_workers(std::move(options));
  Findings out;
  const std::int64_t room = config.device_memory > 0
                                ? static_cast<std::int64_t>(config.device_memory)
                                : memory_of("MemTotal:") / 10 * 9;
  std::size_t well = 0;
  for (const server::ModelEntry& entry : *served) {
    const auto info = prober->probe(entry.path);
    if (!info) {
      out.push_back({Level::Problem,
                     fmt::format("the model {}: {}", entry.name, info.error().message),
                     "fetch the file again, or take it out of the folder"});
    } else if (info->weights.count > room) {
      out.push_back({Level::Problem,
                     fmt::format("the model {} takes {}, more than the {} there are for models",
                                 entry.name, format_bytes(info->weights.count), format_bytes(room)),
                     "take a smaller model or quantisation"});
    } else {
      ++well;
    }
  }
  out.push_back(
      {Level::Well, fmt::format("{} model{} can be opened", well, well == 1 ? "" : "s"), ""});
  return out;
}

Finding check_clock(std::int64_t now_unix_ms, std::int64_t newest_unix_ms) {
  constexpr std::int64_t kYear2026 = 1'767'225'600'000, kMinute = 60'000;
  if (now_unix_ms < kYear2026) {
    return {Level::Problem, "the clock is before the year 2026",
            "set it: what is kept, and daily limits, go by it"};
  }
  if (newest_unix_ms > now_unix_ms + kMinute) {
    return {Level::Advice, "the newest request was accepted in the future: the clock was set back",
            "retention and daily limits are wrong until the clock has come there again"};
  }
  return {Level::Well, "the clock is plausible", ""};
}

Findings check_up(const Config& config, const std::string& executable) {
  Findings all{check_processor()};
  std::ranges::move(check_memory(config), std::back_inserter(all));
  all.push_back(check_data_folder(config.data));
  if (all.back().level != Level::Problem) all.push_back(check_disk(config.data));
  all.push_back(check_address(config));
  std::ranges::move(check_models(config, executable), std::back_inserter(all));
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  all.push_back(check_clock(now.count(), store::newest_request(config.data).value_or(0)));
  std::ranges::stable_sort(all, std::greater<>{}, &Finding::level);
  return all;
}

}  // namespace lares::app
