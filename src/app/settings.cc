#include "app/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text.h"

namespace lares::app {
namespace {

// Width of the help's and the example's text.
constexpr std::size_t kColumns = 96;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Error out_of_range(const Setting& setting, std::string_view text) {
  return Error{Code::Invalid, fmt::format("`{}` is out of range; {}", text, range_text(setting))};
}

bool within(const Setting& setting, double value) {
  return value >= setting.least && value <= setting.most;
}

Result<std::int64_t> whole_number(const Setting& setting, std::string_view text) {
  std::int64_t value = 0;
  if (setting.form == Form::Size) {
    const std::optional<std::int64_t> bytes = parse_bytes(text);
    if (!bytes) {
      return fail(Code::Invalid, fmt::format("`{}` is not a size such as \"16 MiB\"; {}", text,
                                             range_text(setting)));
    }
    value = *bytes;
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
      return fail(Code::Invalid,
                  fmt::format("`{}` is not a whole number; {}", text, range_text(setting)));
    }
  }
  if (!within(setting, static_cast<double>(value))) {
    return tl::unexpected(out_of_range(setting, text));
  }
  return value;
}

Result<> assign(const Setting& setting, std::string_view text, std::string& out) {
  const auto& choices = setting.choices;
  if (setting.form == Form::Choice && std::ranges::find(choices, text) == choices.end()) {
    return fail(Code::Invalid, fmt::format("`{}` is not {}.{}", text, range_text(setting),
                                           suggestion(text, choices)));
  }
  if (text.find('\0') != std::string_view::npos) {
    return fail(Code::Invalid, "a zero byte is not allowed");
  }
  out = text;
  return {};
}

Result<> assign(const Setting& setting, std::string_view text, std::uint32_t& out) {
  out = static_cast<std::uint32_t>(TRY(whole_number(setting, text)));
  return {};
}

Result<> assign(const Setting& setting, std::string_view text, std::uint64_t& out) {
  out = static_cast<std::uint64_t>(TRY(whole_number(setting, text)));
  return {};
}

Result<> assign(const Setting& setting, std::string_view text, double& out) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
    return fail(Code::Invalid, fmt::format("`{}` is not a number; {}", text, range_text(setting)));
  }
  if (!within(setting, value)) return tl::unexpected(out_of_range(setting, text));
  out = value;
  return {};
}

Result<> assign(const Setting& setting, std::string_view text, Duration& out) {
  const std::optional<Duration> value = parse_duration(text);
  if (!value) {
    return fail(Code::Invalid, fmt::format("`{}` is not a time such as \"10s\" or \"250ms\"; {}",
                                           text, range_text(setting)));
  }
  if (!within(setting, static_cast<double>(value->count()))) {
    return tl::unexpected(out_of_range(setting, text));
  }
  out = *value;
  return {};
}

Result<> assign(const Setting& /*setting*/, std::string_view text, std::vector<std::string>& out) {
  out.clear();
  while (!trimmed(text).empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    out.emplace_back(trimmed(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

// The words of `text` in lines of at most kColumns, each begun by `indent`.
std::string wrapped(std::string_view text, std::string_view indent) {
  std::string out;
  std::string line;
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(std::min(blank + 1, text.size()));
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > kColumns) {
      out += fmt::format("{}{}\n", indent, line);
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  return out + fmt::format("{}{}\n", indent, line);
}

// "16 KiB" rather than "16.0 KiB": limits are round numbers.
std::string round_text(std::string text) {
  const std::size_t dot = text.find('.');
  const std::size_t blank = text.find(' ');
  if (dot != std::string::npos && blank != std::string::npos &&
      text.find_first_not_of('0', dot + 1) == blank) {
    text.erase(dot, blank - dot);
  }
  return text;
}

std::string_view section_of(const Setting& setting) {
  return setting.key.substr(0, setting.key.find('.'));
}

std::string placeholder(const Setting& setting) {
  if (setting.key == "server.listen") return "ADDR:PORT";
  if (setting.form == Form::Path) return setting.key == "scheduler.event_log" ? "FILE" : "DIR";
  if (setting.form == Form::Size) return "SIZE";
  if (std::holds_alternative<Duration Config::*>(setting.target)) return "TIME";
  if (std::holds_alternative<std::string Config::*>(setting.target)) return "NAME";
  if (std::holds_alternative<std::vector<std::string> Config::*>(setting.target)) return "A,B,...";
  return "N";
}

// The default as the file has it.
std::string toml_value(const Setting& setting) {
  if (std::holds_alternative<std::vector<std::string> Config::*>(setting.target)) {
    Config config;
    (void)set_value(setting, setting.fallback, config);
    const auto& words = config.*std::get<std::vector<std::string> Config::*>(setting.target);
    return fmt::format("[\"{}\"]", fmt::join(words, "\", \""));
  }
  const bool number = std::holds_alternative<double Config::*>(setting.target) ||
                      (std::holds_alternative<std::uint32_t Config::*>(setting.target) &&
                       setting.form == Form::Plain);
  return number ? std::string(setting.fallback) : fmt::format("\"{}\"", setting.fallback);
}

constexpr std::string_view kExampleHead =
    R"(# Lares: every setting with its default. Start with `lares serve --config FILE`.
#
# Each can also be given as the flag named beside it, which then counts instead. Sizes are written
# "16 MiB", times "250ms", "10s", "5m"; relative paths start at the folder of this file. A key that
# is not known is an error.
)";

constexpr std::string_view kExampleModel = R"(
# Models beside those found in models.folder; repeat the block for each.
#
# [[model]]
# name = "my-model"        # As clients say it; default: the file's name without its ending.
# path = "my-model.gguf"   # Needed. The first file, where a model is split over several.
# adapter = "tone.gguf"    # A LoRA adapter for it. Another block with the same path, another name
#                          # and no adapter, or another one, shares the weights.
# adapter_scale = 1.0      # How much of the adapter.
# context = 0              # Most tokens of one request, prompt and answer; 0: as trained.
# pool_tokens = 0          # As device.pool_tokens, for this model alone.
# keep = "auto"            # Stays loaded while there is room; "always" from the start on and for
#                          # good; a time such as "10m" that long after its last use.

# A name that stands for any of several models, the best first. A request takes the first of them
# that is loaded and can do what is asked; where the class says prefer = "better", the best.
#
# [models.alias]
# assistant = ["my-model", "starter-chat"]
)";

}  // namespace

const Setting* setting_by_key(std::string_view key) {
  const auto all = settings();
  const auto found = std::ranges::find(all, key, &Setting::key);
  return found == all.end() ? nullptr : &*found;
}

const Setting* setting_by_flag(std::string_view flag) {
  const auto all = settings();
  const auto found = std::ranges::find(all, flag, &Setting::flag);
  return found == all.end() ? nullptr : &*found;
}

Result<> set_value(const Setting& setting, std::string_view text, Config& config) {
  return std::visit([&](auto member) { return assign(setting, text, config.*member); },
                    setting.target);
}

std::string range_text(const Setting& setting) {
  if (setting.form == Form::Choice)
    return fmt::format("one of {}", fmt::join(setting.choices, ", "));
  if (setting.least == 0 && setting.most == 0) return "";
  const auto least = static_cast<std::int64_t>(setting.least);
  const auto most = static_cast<std::int64_t>(setting.most);
  if (setting.form == Form::Size) {
    return fmt::format("{} .. {}", round_text(format_bytes(least)), round_text(format_bytes(most)));
  }
  if (std::holds_alternative<Duration Config::*>(setting.target)) {
    return fmt::format("{} .. {}", round_text(format_duration(Duration(least))),
                       round_text(format_duration(Duration(most))));
  }
  return fmt::format("{} .. {}", setting.least, static_cast<double>(setting.most));
}

std::string value_text(const Setting& setting, const Config& config) {
  if (const auto* words = std::get_if<std::string Config::*>(&setting.target))
    return config.*(*words);
  if (const auto* list = std::get_if<std::vector<std::string> Config::*>(&setting.target))
    return fmt::format("{}", fmt::join(config.*(*list), ","));
  if (const auto* time = std::get_if<Duration Config::*>(&setting.target))
    return round_text(format_duration(config.*(*time)));
  if (const auto* real = std::get_if<double Config::*>(&setting.target))
    return fmt::format("{}", config.*(*real));
  const auto* large = std::get_if<std::uint64_t Config::*>(&setting.target);
  const std::uint64_t number = large != nullptr
                                   ? config.*(*large)
                                   : config.*std::get<std::uint32_t Config::*>(setting.target);
  if (setting.form != Form::Size || number == 0) return fmt::format("{}", number);
  return round_text(format_bytes(static_cast<std::int64_t>(number)));
}

std::string settings_help() {
  std::string out =
      "lares serve [FLAG VALUE]...\n\n  --config FILE\n"
      "      TOML file with the settings below; flags count instead of what it says.\n"
      "  --help\n      This text.\n";
  std::string_view section;
  for (const Setting& setting : settings()) {
    if (section_of(setting) != section) {
      section = section_of(setting);
      out += fmt::format("\n{}\n", section);
    }
    out += fmt::format("  {} {}   (file: {})\n", setting.flag, placeholder(setting), setting.key);
    out += wrapped(setting.meaning, "      ");
    const std::string range = range_text(setting);
    std::string facts = setting.fallback.empty() ? "" : fmt::format("Default {}", setting.fallback);
    if (!range.empty()) facts += fmt::format("{}{}", facts.empty() ? "" : "; ", range);
    if (!facts.empty()) facts += ". ";
    out += wrapped(facts + std::string(setting.reason), "      ");
  }
  return out;
}

std::string settings_example() {
  std::string out(kExampleHead);
  std::string_view section;
  for (const Setting& setting : settings()) {
    if (section_of(setting) != section) {
      section = section_of(setting);
      out += fmt::format("\n[{}]\n", section);
    }
    out += '\n';
    out += wrapped(setting.meaning, "# ");
    out += wrapped(setting.reason, "# ");
    const std::string range = range_text(setting);
    out +=
        wrapped(fmt::format("Flag: {}{}", setting.flag, range.empty() ? "" : "; " + range), "# ");
    out += fmt::format("{} = {}\n", setting.key.substr(section.size() + 1), toml_value(setting));
  }
  return out + std::string(kExampleModel);
}

}  // namespace lares::app
