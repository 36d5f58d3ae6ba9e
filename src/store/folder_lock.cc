#include "store/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace lares::store {
namespace {

// "PID\nURL\n", as far as it is written.
std::string line_of(int fd, int number) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  std::string_view left(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  for (; number > 0; --number) left.remove_prefix(std::min(left.size(), left.find('\n') + 1));
  return std::string(left.substr(0, left.find('\n')));
}

// The holder writes its number right after it got the lock.
std::string holder(int fd) {
  const std::string pid = line_of(fd, 0);
  return pid.empty() ? "another process" : "process " + pid;
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = folder + "/lares.lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return fail(Code::Io, fmt::format("the data folder {} cannot be used: {}. Choose another with "
                                      "--data or server.data",
                                      folder, std::strerror(errno)));
  }
  FolderLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::Conflict,
                fmt::format("{} is in use by {}, a server of its own; stop that one, or choose "
                            "another folder with --data",
                            folder, holder(fd)));
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return fail(Code::Io, fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
  }
  return lock;
}

Result<> FolderLock::announce(const std::string& url) {
  const std::string text = fmt::format("{}\n{}\n", ::getpid(), url);
  if (::pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return {};
  return fail(Code::Io,
              fmt::format("the data folder's lock cannot be written: {}", std::strerror(errno)));
}

std::optional<std::string> server_of(const std::string& folder) {
  const int fd = ::open((folder + "/lares.lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  // Whoever gets the lock learns that nobody has it.
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0;
  std::string url = held ? line_of(fd, 1) : "";
  ::close(fd);
  if (url.empty()) return std::nullopt;
  return url;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace lares::store
