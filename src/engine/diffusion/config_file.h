// One JSON file of a model folder, read so that every error names the file and the key.
//
// The reader of a component takes the keys it knows; `finish` then refuses the first thing that was
// found wrong, and any key left over that seems to ask for something.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace lares::diffusion {

// Whole file, at most `most` bytes. Errors: NotFound, Io, TooLarge.
Result<std::string> read_text_file(const std::string& path, std::uint64_t most);

class ConfigFile {
 public:
  // Errors: as read_text_file, and Invalid for what is no JSON object.
  static Result<ConfigFile> open(const std::string& path);

  // Each reads a key that may be absent or null (then it is the default) and notes what is wrong.
  std::uint32_t count(std::string_view key, std::int64_t fallback, std::int64_t least,
                      std::int64_t most);
  double number(std::string_view key, double fallback, double least, double most);
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);
  std::vector<std::uint32_t> counts(std::string_view key, std::int64_t most);
  std::vector<std::string> texts(std::string_view key);
  // A number for all of `n` blocks, or a list with one for each.
  std::vector<std::uint32_t> count_or_counts(std::string_view key, std::int64_t fallback,
                                             std::int64_t most, std::size_t n);
  // The index of the text among `names`; another one is Unsupported.
  std::size_t choice(std::string_view key, std::string_view fallback,
                     std::initializer_list<std::string_view> names);

  // The key must be absent or have this value (as compact JSON): the engine does nothing else.
  void only(std::string_view key, std::initializer_list<std::string_view> values);
  // Keys that say nothing about how to compute.
  void ignore(std::initializer_list<std::string_view> keys);
  [[nodiscard]] const json::Value* find(std::string_view key);
  void refuse(Code code, std::string_view key, std::string_view what);

  [[nodiscard]] Result<> finish();

 private:
  std::string path_;
  json::Value root_;
  std::set<std::string, std::less<>> seen_;
  Error error_;
};

}  // namespace lares::diffusion
