// Files of models on their way into and out of a folder.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"

namespace lares::app {

enum class AddHow : std::uint8_t { LinkOrCopy, Symlink };

// Puts the model whose first file is `path` into `folder`, all its parts, under the name `name`
// ("" keeps the files' own). A hard link where the file system allows it, else a copy; no part is
// seen under its name before it is whole, and the first one comes last. Returns the first file's
// new path. Errors: NotFound (a part is missing), Conflict (such a file is there), Io.
Result<std::string> add_model_files(const std::string& path, const std::string& folder,
                                    const std::string& name, AddHow how);

// Removes every part; the first one first, so that nobody finds half a model. Errors: Io.
Result<> remove_model_files(const std::string& path);

}  // namespace lares::app
