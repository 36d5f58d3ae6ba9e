// A models folder and the folders within it, links to others included.
#pragma once

#include <filesystem>
#include <functional>
#include <system_error>

namespace lares::app {

// Calls `visit` for every file in `folder` and up to `depth` folders below, in no order; `depth`
// counts from 0. Folders are entered once, whatever links lead there; what may not be read, or is
// not there any more, is passed over. Returns what kept `folder` itself from being read.
std::error_code walk_folder(
    const std::filesystem::path& folder, int depth,
    const std::function<void(const std::filesystem::path& file, int depth)>& visit);

}  // namespace lares::app
