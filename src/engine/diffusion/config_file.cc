#include "engine/diffusion/config_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lares::diffusion {
namespace {

constexpr std::uint64_t kConfigMax = 1U << 20U;

// Asks for nothing: null, false, 0, "", [] and {}.
bool is_nothing(const json::Value& value) {
  if (value.is_null()) return true;
  if (const bool* flag = value.as<bool>()) return !*flag;
  if (const auto number = value.number()) return *number == 0;
  if (const auto* text = value.as<std::string>()) return text->empty();
  if (const auto* array = value.as<json::Array>()) return array->empty();
  const auto* object = value.as<json::Object>();
  return object != nullptr && object->empty();
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, std::uint64_t most) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return fail(Code::NotFound, path + ": no such file");
  if (!std::filesystem::is_regular_file(status))
    return fail(Code::Io, path + ": not a regular file");
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::string part(1U << 16U, '\0');
  while (file) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part, 0, static_cast<std::size_t>(file.gcount()));
    if (text.size() > most) {
      return fail(Code::TooLarge, fmt::format("{}: more than {} bytes", path, most));
    }
  }
  if (!file.eof()) return fail(Code::Io, path + ": cannot be read");
  return text;
}

Result<ConfigFile> ConfigFile::open(const std::string& path) {
  const std::string text = TRY(read_text_file(path, kConfigMax));
  auto parsed = json::parse(text);
  if (!parsed) return fail(Code::Invalid, fmt::format("{}: {}", path, parsed.error().message));
  if (parsed->as<json::Object>() == nullptr) {
    return fail(Code::Invalid, fmt::format("{}: must be a JSON object", path));
  }
  ConfigFile file;
  file.path_ = path;
  file.root_ = *std::move(parsed);
  return file;
}

void ConfigFile::refuse(Code code, std::string_view key, std::string_view what) {
  if (error_.message.empty()) error_ = {code, fmt::format("{}: `{}` {}", path_, key, what)};
}

const json::Value* ConfigFile::find(std::string_view key) {
  seen_.emplace(key);
  const json::Value* value = root_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::uint32_t ConfigFile::count(std::string_view key, std::int64_t fallback, std::int64_t least,
                                std::int64_t most) {
  const json::Value* value = find(key);
  const auto whole = value == nullptr ? fallback : value->integer();
  if (!whole || *whole < least || *whole > most) {
    refuse(Code::Invalid, key, fmt::format("must be a whole number from {} to {}", least, most));
    return static_cast<std::uint32_t>(least);
  }
  return static_cast<std::uint32_t>(*whole);
}

double ConfigFile::number(std::string_view key, double fallback, double least, double most) {
  const json::Value* value = find(key);
  const auto number = value == nullptr ? fallback : value->number();
  if (!number || !(*number >= least && *number <= most)) {
    refuse(Code::Invalid, key, fmt::format("must be a number from {} to {}", least, most));
    return least;
  }
  return *number;
}

bool ConfigFile::flag(std::string_view key, bool fallback) {
  const json::Value* value = find(key);
  if (value == nullptr) return fallback;
  if (const bool* flag = value->as<bool>()) return *flag;
  refuse(Code::Invalid, key, "must be true or false");
  return fallback;
}

std::string ConfigFile::text(std::string_view key, std::string_view fallback) {
  const json::Value* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (const auto* text = value->as<std::string>()) return *text;
  refuse(Code::Invalid, key, "must be a string");
  return std::string(fallback);
}

std::vector<std::uint32_t> ConfigFile::counts(std::string_view key, std::int64_t most) {
  const json::Value* value = find(key);
  const auto* array = value == nullptr ? nullptr : value->as<json::Array>();
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto whole = (*array)[i].integer();
    if (whole && *whole >= 1 && *whole <= most) out.push_back(static_cast<std::uint32_t>(*whole));
  }
  if (array == nullptr || array->empty() || out.size() != array->size()) {
    refuse(Code::Invalid, key, fmt::format("must be a list of whole numbers from 1 to {}", most));
  }
  return out;
}

std::vector<std::string> ConfigFile::texts(std::string_view key) {
  const json::Value* value = find(key);
  const auto* array = value == nullptr ? nullptr : value->as<json::Array>();
  std::vector<std::string> out;
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (const auto* text = (*array)[i].as<std::string>()) out.push_back(*text);
  }
  if (array == nullptr || out.size() != array->size()) {
    refuse(Code::Invalid, key, "must be a list of strings");
  }
  return out;
}

std::vector<std::uint32_t> ConfigFile::count_or_counts(std::string_view key, std::int64_t fallback,
                                                       std::int64_t most, std::size_t n) {
  const json::Value* value = find(key);
  if (value == nullptr || value->as<json::Array>() == nullptr) {
    return std::vector<std::uint32_t>(n, count(key, fallback, 1, most));
  }
  std::vector<std::uint32_t> out = counts(key, most);
  if (out.size() != n) refuse(Code::Invalid, key, fmt::format("must have {} entries", n));
  out.resize(n, 1);
  return out;
}

std::size_t ConfigFile::choice(std::string_view key, std::string_view fallback,
                               std::initializer_list<std::string_view> names) {
  const std::string chosen = text(key, fallback);
  const auto* at = std::ranges::find(names, std::string_view(chosen));
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  refuse(
      Code::Unsupported, key,
      fmt::format("is \"{}\", which this engine lacks; it has {}", chosen, fmt::join(names, ", ")));
  return 0;
}

void ConfigFile::only(std::string_view key, std::initializer_list<std::string_view> values) {
  const json::Value* value = find(key);
  if (value == nullptr) return;
  const std::string written = json::to_text(*value);
  for (const std::string_view allowed : values) {
    if (written == allowed) return;
    // 0, 0.0 and 0E0 are the same number.
    const auto number = value->number();
    const auto other = json::parse(allowed);
    if (number && other && other->number() == number) return;
  }
  refuse(
      Code::Unsupported, key,
      fmt::format("is {}, which this engine lacks; it has {}", written, fmt::join(values, ", ")));
}

void ConfigFile::ignore(std::initializer_list<std::string_view> keys) {
  seen_.insert(keys.begin(), keys.end());
}

Result<> ConfigFile::finish() {
  for (const auto& [key, value] : *root_.as<json::Object>()) {
    if (key.starts_with('_') || seen_.contains(key) || is_nothing(value)) continue;
    refuse(Code::Unsupported, key,
           fmt::format("is {}: this engine does not know that key", json::to_text(value)));
  }
  if (!error_.message.empty()) return tl::unexpected(error_);
  return {};
}

}  // namespace lares::diffusion
