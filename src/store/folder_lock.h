// One server a data folder: a lock that ends with the process that holds it, however that ends.
#pragma once

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

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lares::store
