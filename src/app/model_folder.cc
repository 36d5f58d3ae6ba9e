#include "app/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>

#include <fmt/format.h>

#include "app/folder_walk.h"

namespace lares::app {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthMax = 3;

struct File {
  std::string path, stem, name;
  std::uintmax_t bytes = 0;
};

// "x-00001-of-00003" -> "x"; nothing for the later files of a split model.
bool strip_split(std::string& stem) {
  static const std::regex split("^(.*)-([0-9]{5})-of-[0-9]{5}$");
  std::smatch match;
  if (!std::regex_match(stem, match, split)) return true;
  const bool first = match[2] == "00001";
  stem = match[1].str();
  return first;
}

std::uintmax_t size_of(const std::string& path) {
  std::uintmax_t bytes = 0;
  for (const std::string& part : model_parts(path)) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(part, error);
    if (!error) bytes += size;
  }
  return bytes;
}

std::string without_quantisation(const std::string& stem) {
  static const std::regex suffix(
      "[-._](q[0-9]_[0-9k](_[a-z]+)?|iq[0-9]_[a-z]+|f16|f32|bf16|mxfp4(_moe)?)$",
      std::regex::icase);
  return std::regex_replace(stem, suffix, "");
}

}  // namespace

std::vector<std::string> model_parts(const std::string& path) {
  static const std::regex first("^(.*-)00001(-of-)([0-9]{5})([.]gguf)$");
  std::smatch match;
  if (!std::regex_match(path, match, first)) return {path};
  std::vector<std::string> parts;
  const int count = std::stoi(match[3]);
  for (int i = 1; i <= count; ++i) {
    parts.push_back(fmt::format("{}{:05}{}{}{}", match[1].str(), i, match[2].str(), match[3].str(),
                                match[4].str()));
  }
  return parts.empty() ? std::vector<std::string>{path} : parts;
}

Result<std::vector<FoundModel>> find_models(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return fail(Code::NotFound,
                fmt::format("the models folder {} does not exist; create it, or name another "
                            "with --models",
                            folder));
  }
  std::vector<File> files;
  error = walk_folder(folder, kDepthMax, [&](const fs::path& path, int /*depth*/) {
    if (path.extension() != ".gguf") return;
    File file{.path = path.string(), .stem = path.stem().string(), .name = {}};
    if (!strip_split(file.stem)) return;
    file.bytes = size_of(file.path);
    file.name = without_quantisation(file.stem);
    files.push_back(std::move(file));
  });
  if (error) {
    return fail(Code::Io,
                fmt::format("the models folder {} cannot be read: {}", folder, error.message()));
  }
  std::ranges::sort(files, {}, &File::path);
  std::map<std::string, const File*> smallest;
  for (const File& file : files) {
    const File*& best = smallest[file.name];
    if (best == nullptr || file.bytes < best->bytes) best = &file;
  }
  std::vector<FoundModel> found;
  for (const File& file : files) {
    found.push_back({smallest[file.name] == &file ? file.name : file.stem, file.path});
  }
  std::ranges::sort(found, {}, &FoundModel::name);
  return found;
}

}  // namespace lares::app
