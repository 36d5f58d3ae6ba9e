// The one table of settings. `--help`, examples/lares.toml, reading of the file and of the flags
// all come from it, so they cannot disagree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "app/config.h"
#include "core/result.h"

namespace lares::app {

// What the value means where its type does not say it.
enum class Form : std::uint8_t {
  Plain,   // A number, a word, a list of words.
  Path,    // A file or folder; relative ones in a file start at the file's folder.
  Size,    // Bytes: "16 MiB" or a whole number.
  Choice,  // One of `choices`.
};

using Target =
    std::variant<std::string Config::*, std::uint32_t Config::*, std::uint64_t Config::*,
                 double Config::*, Duration Config::*, std::vector<std::string> Config::*>;

struct Setting {
  std::string_view key;       // "limits.body_bytes": section and key of the file.
  std::string_view flag;      // "--body-bytes"
  std::string_view fallback;  // Default, as written after the flag.
  Target target;
  Form form = Form::Plain;
  double least = 0, most = 0;  // Range of a number, in tokens, bytes or nanoseconds.
  std::vector<std::string_view> choices;
  std::string_view meaning;  // A sentence, with the unit.
  std::string_view reason;   // Why this default; what more or less would do.
};

// In the order of the file.
std::span<const Setting> settings();
// Part of them (settings_jobs.cc).
std::vector<Setting> job_settings();

// Nothing if there is no such setting.
const Setting* setting_by_key(std::string_view key);
const Setting* setting_by_flag(std::string_view flag);

// Sets one value from what a person wrote. Errors: Invalid, a sentence without the setting's name:
// "`abc` is not a whole number; 0 .. 1024".
Result<> set_value(const Setting& setting, std::string_view text, Config& config);

// "0 .. 1024", "1 KiB .. 1 GiB", "one of fifo, orca", "".
std::string range_text(const Setting& setting);

// What the configuration says, as it would be written after the flag.
std::string value_text(const Setting& setting, const Config& config);

// Text for `lares serve --help`.
std::string settings_help();

// Text of examples/lares.toml.
std::string settings_example();

}  // namespace lares::app
