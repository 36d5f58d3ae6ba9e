// Blobs: files named by the digest of what they hold, in DIR/blobs.
//
// A file is written beside its place, flushed to the disk, and renamed into it, so that it is there
// whole or not at all; reading checks its digest. Who refers to which is the journal's business
// (store/journal.h). Any thread, but one writer.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace lares::store {

class BlobStore {
 public:
  // `folder` is made by the first put().
  explicit BlobStore(std::string folder) : folder_(std::move(folder)) {}

  // Its digest. A blob that is there already is not written again. Errors: Io.
  Result<std::string> put(std::string_view bytes);
  // Errors: NotFound, Corrupt (the file was changed), Io.
  [[nodiscard]] Result<std::string> get(const std::string& hash) const;
  [[nodiscard]] bool has(const std::string& hash) const;
  void remove(const std::string& hash);

  // Removes the files that `wanted` does not want, and what a crash left half-written; returns how
  // many.
  std::size_t sweep(const std::function<bool(const std::string& hash)>& wanted);

 private:
  [[nodiscard]] std::string path_of(const std::string& hash) const;

  std::string folder_;
};

}  // namespace lares::store
