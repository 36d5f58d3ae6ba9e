#include "store/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "store/key.h"

namespace lares::store {
namespace {

constexpr std::string_view kHalf = ".half";  // What is being written.

Error system_error(const std::string& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT;
  return Error{Code::Io, fmt::format("{}: {}", path,
                                     full ? "the disk is full; make room and try again"
                                          : std::strerror(number))};
}

// Writes and flushes; the number of what went wrong, or 0.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0 ? 0 : errno;
}

// A rename lasts once the folder is on the disk.
int flush_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int failed = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return failed;
}

}  // namespace

std::string BlobStore::path_of(const std::string& hash) const {
  return folder_ + "/" + hash.substr(0, 2) + "/" + hash;
}

bool BlobStore::has(const std::string& hash) const {
  std::error_code error;
  return std::filesystem::is_regular_file(path_of(hash), error);
}

Result<std::string> BlobStore::put(std::string_view bytes) {
  std::string hash = digest(bytes);
  const std::string path = path_of(hash);
  // A file that was damaged since is replaced.
  if (has(hash) && get(hash)) return hash;
  const std::string folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return tl::unexpected(system_error(folder, error.value()));
  const std::string half = path + std::string(kHalf);
  const int fd = ::open(half.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return tl::unexpected(system_error(half, errno));
  int failed = write_all(fd, bytes);
  if (::close(fd) != 0 && failed == 0) failed = errno;
  if (failed == 0 && ::rename(half.c_str(), path.c_str()) != 0) failed = errno;
  if (failed == 0) failed = flush_folder(folder);
  if (failed == 0) return hash;
  ::unlink(half.c_str());
  return tl::unexpected(system_error(path, failed));
}

Result<std::string> BlobStore::get(const std::string& hash) const {
  const std::string path = path_of(hash);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return fail(Code::NotFound, fmt::format("{} is gone", path));
  if (fd < 0) return tl::unexpected(system_error(path, errno));
  struct stat info {};
  std::string bytes;
  if (::fstat(fd, &info) == 0) bytes.resize(static_cast<std::size_t>(info.st_size));
  std::size_t read = 0;
  int failed = 0;
  while (read < bytes.size() && failed == 0) {
    const ssize_t got = ::read(fd, bytes.data() + read, bytes.size() - read);
    if (got == 0) break;
    if (got < 0 && errno != EINTR) failed = errno;
    if (got > 0) read += static_cast<std::size_t>(got);
  }
  ::close(fd);
  if (failed != 0) return tl::unexpected(system_error(path, failed));
  if (read != bytes.size() || digest(bytes) != hash) {
    return fail(Code::Corrupt,
                fmt::format("{} does not hold what was written into it; the disk, or somebody, "
                            "changed it",
                            path));
  }
  return bytes;
}

void BlobStore::remove(const std::string& hash) {
  // A damaged database may name anything.
  if (hash.find_first_not_of("0123456789abcdef") != std::string::npos) return;
  ::unlink(path_of(hash).c_str());
}

std::size_t BlobStore::sweep(const std::function<bool(const std::string& hash)>& wanted) {
  std::vector<std::filesystem::path> doomed;
  std::error_code error;
  for (auto at = std::filesystem::recursive_directory_iterator(folder_, error);
       !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    if (at->is_regular_file(error) && !wanted(at->path().filename())) doomed.push_back(at->path());
  }
  for (const auto& path : doomed) std::filesystem::remove(path, error);
  return doomed.size();
}

}  // namespace lares::store
