#include "app/model_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "app/model_folder.h"

namespace lares::app {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> io_error(const fs::path& path, const std::error_code& error) {
  return fail(Code::Io, fmt::format("{}: {}", path.string(), error.message()));
}

// "x-00001-of-00002.gguf" -> "-00001-of-00002.gguf"; ".gguf" for a model in one file.
std::string ending_of(const std::string& file, bool split) {
  constexpr std::size_t kSplit = sizeof("-00001-of-00002.gguf") - 1;
  constexpr std::size_t kSingle = sizeof(".gguf") - 1;
  return file.substr(file.size() - (split ? kSplit : kSingle));
}

Result<> put(const fs::path& from, const fs::path& to, AddHow how) {
  std::error_code error;
  if (how == AddHow::Symlink) {
    fs::create_symlink(fs::absolute(from, error), to, error);
    return error ? Result<>(io_error(to, error)) : Result<>{};
  }
  // What a symbolic link names, not the link.
  const fs::path source = fs::canonical(from, error);
  if (error) return io_error(from, error);
  fs::create_hard_link(source, to, error);
  if (!error) return {};
  // Another file system: under a name that is no model until all of it is there.
  const fs::path part = to.parent_path() / ("." + to.filename().string() + ".part");
  fs::copy_file(source, part, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(part, to, error);
  if (!error) return {};
  std::error_code ignored;
  fs::remove(part, ignored);
  return io_error(to, error);
}

}  // namespace

Result<std::string> add_model_files(const std::string& path, const std::string& folder,
                                    const std::string& name, AddHow how) {
  const std::vector<std::string> parts = model_parts(path);
  std::vector<fs::path> targets;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return io_error(folder, error);
  for (const std::string& part : parts) {
    if (!fs::is_regular_file(part, error)) {
      return fail(Code::NotFound, fmt::format("there is no file {}", part));
    }
    const std::string file = fs::path(part).filename().string();
    targets.push_back(fs::path(folder) /
                      (name.empty() ? file : name + ending_of(file, parts.size() > 1)));
    if (fs::exists(fs::symlink_status(targets.back(), error))) {
      return fail(Code::Conflict,
                  fmt::format("{} is there already; give another name with --name, or remove it",
                              targets.back().string()));
    }
  }
  for (std::size_t i = parts.size(); i-- > 0;) {
    if (Result<> done = put(parts[i], targets[i], how); !done) {
      for (std::size_t k = i + 1; k < targets.size(); ++k) fs::remove(targets[k], error);
      return tl::unexpected(std::move(done.error()));
    }
  }
  return targets.front().string();
}

Result<> remove_model_files(const std::string& path) {
  for (const std::string& part : model_parts(path)) {
    std::error_code error;
    fs::remove(part, error);
    if (error) return io_error(part, error);
  }
  return {};
}

}  // namespace lares::app
