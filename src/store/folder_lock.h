// One server a data folder: a lock that ends with the process that holds it, however that ends.
#pragma once

#include <optional>
#include <string>

#include "core/result.h"

namespace lares::store {

class FolderLock {
 public:
  // Makes the folder if need be. Errors: Conflict (another holds it; names its process), Io.
  static Result<FolderLock> take(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

  // Where the holder serves: for commands on this machine that are given the folder alone.
  Result<> announce(const std::string& url);

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// Where the server of this folder said it serves; nothing if none runs.
std::optional<std::string> server_of(const std::string& folder);

}  // namespace lares::store
