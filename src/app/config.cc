#include "app/config.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>

// Header-only: Debian's shared library is built with exceptions.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
// Its assertions are before checks that refuse the same text with a reason.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <toml++/toml.h>

#include "app/settings.h"
#include "app/toml_letters.h"
#include "core/assert.h"
#include "core/text.h"
#include "sched/classes.h"

namespace lares::app {
namespace {

// toml++ 3.3 recurses on dotted keys: a small file cannot be deep enough to overflow the stack.
constexpr std::uintmax_t kFileBytesMax = std::uintmax_t{1} << 20U;

// A file being read: its name for errors, its folder for paths.
struct Source {
  std::string name;
  std::filesystem::path folder;

  [[nodiscard]] tl::unexpected<Error> at(const toml::source_region& where,
                                         std::string_view message) const {
    return fail(Code::Invalid,
                fmt::format("{}:{}:{}: {}", name, where.begin.line, where.begin.column, message));
  }

  [[nodiscard]] std::string path(const std::string& written) const {
    return written.empty() ? written : (folder / written).lexically_normal().string();
  }
};

std::vector<std::string_view> known_sections() {
  std::vector<std::string_view> names{"model", "class"};
  for (const Setting& setting : settings()) {
    const std::string_view section = setting.key.substr(0, setting.key.find('.'));
    if (names.back() != section) names.push_back(section);
  }
  return names;
}

std::vector<std::string_view> known_keys(std::string_view section) {
  std::vector<std::string_view> names;
  for (const Setting& setting : settings()) {
    if (setting.key.starts_with(fmt::format("{}.", section))) {
      names.push_back(setting.key.substr(section.size() + 1));
    }
  }
  return names;
}

std::string_view wanted_form(const Setting& setting) {
  if (setting.form == Form::Size) return "a size such as \"16 MiB\", or a whole number of bytes";
  if (std::holds_alternative<Duration Config::*>(setting.target)) {
    return "a time with its unit, in quotes, such as \"10s\"";
  }
  if (std::holds_alternative<std::string Config::*>(setting.target)) return "a text in quotes";
  if (std::holds_alternative<double Config::*>(setting.target)) return "a number";
  if (std::holds_alternative<std::uint32_t Config::*>(setting.target)) return "a whole number";
  return "a list of texts in quotes";
}

// The value as a person would write it after the flag; nothing if it is of the wrong type.
std::optional<std::string> as_flag_text(const Setting& setting, const toml::node& node) {
  const bool list = std::holds_alternative<std::vector<std::string> Config::*>(setting.target);
  const bool text = std::holds_alternative<std::string Config::*>(setting.target);
  const bool time = std::holds_alternative<Duration Config::*>(setting.target);
  const bool real = std::holds_alternative<double Config::*>(setting.target);
  if (const auto* string = node.as_string()) {
    if (text || time || setting.form == Form::Size) return string->get();
  } else if (const auto* number = node.as_integer()) {
    if (!list && !text && !time) return fmt::format("{}", number->get());
  } else if (const auto* floating = node.as_floating_point()) {
    if (real) return fmt::format("{}", floating->get());
  } else if (const auto* array = node.as_array(); array != nullptr && list) {
    std::string joined;
    for (const toml::node& item : *array) {
      if (!item.is_string()) return std::nullopt;
      const std::string& word = item.as_string()->get();
      if (word.find(',') != std::string::npos) return std::nullopt;
      joined += joined.empty() ? word : ", " + word;
    }
    return joined;
  }
  return std::nullopt;
}

Result<> read_setting(const Source& source, const Setting& setting, const toml::node& node,
                      Config& config) {
  const std::optional<std::string> text = as_flag_text(setting, node);
  if (!text) {
    return source.at(node.source(),
                     fmt::format("{} must be {}", setting.key, wanted_form(setting)));
  }
  const std::string value = setting.form == Form::Path ? source.path(*text) : *text;
  if (const Result<> set = set_value(setting, value, config); !set) {
    return source.at(node.source(), fmt::format("{}: {}", setting.key, set.error().message));
  }
  return {};
}

// assistant = ["large", "small"]
Result<> read_aliases(const Source& source, const toml::node& node, Config& config) {
  const auto* table = node.as_table();
  if (table == nullptr) return source.at(node.source(), "aliases are written under [models.alias]");
  for (const auto& [key, value] : *table) {
    ConfiguredAlias alias{std::string(key.str()), {}};
    const auto* names = value.as_array();
    for (std::size_t i = 0; names != nullptr && i < names->size(); ++i) {
      if (const auto* name = (*names)[i].as_string()) alias.models.push_back(name->get());
    }
    if (names == nullptr || alias.models.empty() || alias.models.size() != names->size()) {
      return source.at(value.source(),
                       fmt::format("{} must list the names of models, the best first, such as "
                                   "[\"large\", \"small\"]",
                                   key.str()));
    }
    config.aliases.push_back(std::move(alias));
  }
  return {};
}

Result<> read_section(const Source& source, std::string_view section, const toml::table& table,
                      Config& config) {
  for (const auto& [key, node] : table) {
    if (section == "models" && key.str() == "alias") {
      TRY_VOID(read_aliases(source, node, config));
      continue;
    }
    const Setting* setting = setting_by_key(fmt::format("{}.{}", section, key.str()));
    if (setting == nullptr) {
      return source.at(key.source(), fmt::format("[{}] has no key `{}`.{}", section, key.str(),
                                                 suggestion(key.str(), known_keys(section))));
    }
    TRY_VOID(read_setting(source, *setting, node, config));
  }
  return {};
}

Result<> read_model_number(const Source& source, std::string_view key, const toml::node& node,
                           std::uint32_t& out) {
  const auto* number = node.as_integer();
  if (number == nullptr || number->get() < 0 || number->get() > 16777216) {
    return source.at(node.source(),
                     fmt::format("{} must be a whole number of tokens, 0 .. 16777216", key));
  }
  out = static_cast<std::uint32_t>(number->get());
  return {};
}

Result<> read_keep(const Source& source, const toml::node& node, ConfiguredModel& model) {
  const auto* text = node.as_string();
  const std::string said = text == nullptr ? "" : text->get();
  model.pinned = said == "always";
  if (model.pinned || said == "auto") return {};
  const auto time = parse_duration(said);
  if (!time)
    return source.at(node.source(), "keep must be \"always\", \"auto\" or a time: \"10m\"");
  model.keep = *time;
  return {};
}

Result<> read_model(const Source& source, const toml::table& table, Config& config) {
  static constexpr std::string_view kKeys[] = {"name",    "path",        "adapter", "adapter_scale",
                                               "context", "pool_tokens", "keep"};
  ConfiguredModel model;
  for (const auto& [key, node] : table) {
    const std::string_view name = key.str();
    if (name == "context" || name == "pool_tokens") {
      TRY_VOID(read_model_number(source, name, node,
                                 name == "context" ? model.context : model.pool_tokens));
    } else if (name == "keep") {
      TRY_VOID(read_keep(source, node, model));
    } else if (name == "adapter_scale") {
      const auto scale = node.value<double>();
      if (!scale || !(*scale >= -16 && *scale <= 16))
        return source.at(node.source(), "adapter_scale must be a number, -16 .. 16");
      model.adapter_scale = *scale;
    } else if (name == "name" || name == "path" || name == "adapter") {
      const auto* text = node.as_string();
      if (text == nullptr || text->get().empty())
        return source.at(node.source(), fmt::format("{} must be a text in quotes", name));
      (name == "name" ? model.name : name == "path" ? model.path : model.adapter) = text->get();
    } else {
      return source.at(key.source(),
                       fmt::format("[[model]] has no key `{}`.{}", name, suggestion(name, kKeys)));
    }
  }
  if (model.path.empty()) return source.at(table.source(), "[[model]] needs a `path`");
  model.path = source.path(model.path);
  if (!model.adapter.empty()) model.adapter = source.path(model.adapter);
  const std::filesystem::path named = model.adapter.empty() ? model.path : model.adapter;
  if (model.name.empty()) model.name = named.stem().string();
  for (const ConfiguredModel& other : config.models) {
    if (other.name == model.name)
      return source.at(table.source(), fmt::format("two models are called `{}`", model.name));
  }
  config.models.push_back(std::move(model));
  return {};
}

Result<> read_models(const Source& source, const toml::node& node, Config& config) {
  const auto* array = node.as_array();
  if (array == nullptr) return source.at(node.source(), "models are written as [[model]] blocks");
  for (const toml::node& item : *array) {
    const auto* table = item.as_table();
    if (table == nullptr) return source.at(item.source(), "models are written as [[model]] blocks");
    TRY_VOID(read_model(source, *table, config));
  }
  return {};
}

Result<> read_class_key(const Source& source, std::string_view key, const toml::node& node,
                        sched::ClassSpec& spec) {
  static constexpr std::string_view kKeys[] = {"name",       "first", "gap",          "completion",
                                               "guaranteed", "floor", "longest_wait", "prefer"};
  if (key == "guaranteed" || key == "floor") {
    const auto percent = node.value<double>();
    if (!percent || *percent < 0 || *percent > 100) {
      return source.at(node.source(), fmt::format("{} must be a percentage, 0 .. 100", key));
    }
    (key == "floor" ? spec.floor : spec.guaranteed) = static_cast<std::uint32_t>(*percent * 10);
    return {};
  }
  Duration* const target = key == "first"          ? &spec.first_target
                           : key == "gap"          ? &spec.gap_target
                           : key == "completion"   ? &spec.completion_target
                           : key == "longest_wait" ? &spec.longest_wait
                                                   : nullptr;
  if (target == nullptr) {
    return source.at(node.source(),
                     fmt::format("[[class]] has no key `{}`.{}", key, suggestion(key, kKeys)));
  }
  const auto* text = node.as_string();
  const auto time = text != nullptr ? parse_duration(text->get()) : std::nullopt;
  if (!time || *time < Duration{} || *time > std::chrono::hours(24)) {
    return source.at(node.source(),
                     fmt::format("{} must be a time with its unit, in quotes, such as \"10s\"; a "
                                 "day at most",
                                 key));
  }
  *target = *time;
  return {};
}

Result<> read_preference(const Source& source, const toml::node& node, const std::string& name,
                         Config& config) {
  const auto* text = node.as_string();
  const std::string said = text == nullptr ? "" : text->get();
  if (said != "better" && said != "sooner")
    return source.at(node.source(), "prefer must be \"better\" or \"sooner\"");
  if (said == "better") config.better_classes.push_back(name);
  return {};
}

// What a block leaves out is as the household has it, if it has a class of that name.
Result<> read_class(const Source& source, const toml::table& table, Config& config) {
  const auto name = table["name"].value<std::string>();
  if (!name || name->empty()) return source.at(table.source(), "[[class]] needs a `name`");
  sched::ClassSpec spec = class_spec(config, *name);
  for (const auto& [key, node] : table) {
    if (key.str() == "prefer") {
      TRY_VOID(read_preference(source, node, *name, config));
      continue;
    }
    if (key.str() != "name") TRY_VOID(read_class_key(source, key.str(), node, spec));
  }
  for (const sched::ClassSpec& other : config.class_specs) {
    if (other.name == spec.name) {
      return source.at(table.source(), fmt::format("two classes are called `{}`", spec.name));
    }
  }
  config.class_specs.push_back(std::move(spec));
  return {};
}

Result<> read_classes(const Source& source, const toml::node& node, Config& config) {
  const auto* array = node.as_array();
  if (array == nullptr) return source.at(node.source(), "classes are written as [[class]] blocks");
  for (const toml::node& item : *array) {
    const auto* table = item.as_table();
    if (table == nullptr) {
      return source.at(item.source(), "classes are written as [[class]] blocks");
    }
    TRY_VOID(read_class(source, *table, config));
  }
  return {};
}

Result<std::string> file_text(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    const bool absent = error == std::errc::no_such_file_or_directory;
    return fail(absent ? Code::NotFound : Code::Io,
                fmt::format("the configuration file {} cannot be read: {}", path, error.message()));
  }
  if (size > kFileBytesMax) {
    return fail(Code::TooLarge, fmt::format("the configuration file {} is {}; at most {} are read",
                                            path, format_bytes(static_cast<std::int64_t>(size)),
                                            format_bytes(kFileBytesMax)));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  if (in.bad() || !in.is_open()) {
    return fail(Code::Io, fmt::format("the configuration file {} cannot be read", path));
  }
  return text;
}

struct Flag {
  std::string name;  // "--listen"
  std::string value;
};

tl::unexpected<Error> unknown_flag(const std::string& name) {
  std::vector<std::string_view> names{"--config", "--help"};
  for (const Setting& setting : settings()) names.push_back(setting.flag);
  return fail(Code::Invalid, fmt::format("there is no flag `{}`.{} `lares serve --help` lists all.",
                                         name, suggestion(name, names)));
}

// `--flag value` and `--flag=value`; sets `help` for --help and -h.
Result<std::vector<Flag>> split_flags(std::span<const std::string> arguments, bool& help) {
  std::vector<Flag> flags;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      help = true;
      continue;
    }
    if (!argument.starts_with("--")) {
      return fail(Code::Invalid,
                  fmt::format("`{}` is not a flag; `lares serve --help` lists them", argument));
    }
    const std::size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    if (name != "--config" && setting_by_flag(name) == nullptr) return unknown_flag(name);
    if (equals == std::string::npos && i + 1 == arguments.size()) {
      return fail(Code::Invalid, fmt::format("{} needs a value after it", name));
    }
    std::string value = equals == std::string::npos ? arguments[++i] : argument.substr(equals + 1);
    flags.push_back(Flag{std::move(name), std::move(value)});
  }
  return flags;
}

Result<> split_listen(Config& config) {
  const std::string& listen = config.listen;
  const std::size_t colon = listen.rfind(':');
  const std::string port = colon == std::string::npos ? "" : listen.substr(colon + 1);
  std::string address = listen.substr(0, std::min(colon, listen.size()));
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  } else if (address.find(':') != std::string::npos) {
    address.clear();  // A bare IPv6 address: which colon begins the port cannot be told.
  }
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  const unsigned long number = digits ? std::strtoul(port.c_str(), nullptr, 10) : 65536;
  if (address.empty() || number > 65535) {
    return fail(Code::Invalid,
                fmt::format("server.listen (--listen): `{}` is not ADDRESS:PORT, such "
                            "as 127.0.0.1:8080 or [::1]:8080",
                            listen));
  }
  config.address = std::move(address);
  config.port = static_cast<std::uint16_t>(number);
  return {};
}

Result<> check_classes(const std::vector<std::string>& names) {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_";
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (name.empty() || name.size() > 32 || name.find_first_not_of(kLetters) != std::string::npos) {
      return fail(Code::Invalid,
                  fmt::format("classes.names (--classes): `{}` is not a name of 1 to "
                              "32 small letters, digits, `-` and `_`",
                              name));
    }
    if (!seen.insert(name).second) {
      return fail(Code::Invalid,
                  fmt::format("classes.names (--classes): `{}` is there twice", name));
    }
  }
  if (!seen.contains("chat")) {
    return fail(Code::Invalid,
                "classes.names (--classes) must contain `chat`, which a request that "
                "names no class belongs to");
  }
  return {};
}

}  // namespace

sched::ClassSpec class_spec(const Config& config, const std::string& name) {
  const auto known = std::ranges::find(config.class_specs, name, &sched::ClassSpec::name);
  if (known != config.class_specs.end()) return *known;
  const auto household = sched::household_classes();
  const auto usual = std::ranges::find(household, name, &sched::ClassSpec::name);
  return usual != household.end() ? *usual : sched::ClassSpec{.name = name};
}

std::string default_data_folder() {
  const char* xdg = std::getenv("XDG_DATA_HOME");
  // The XDG specification says to ignore a relative path.
  if (xdg != nullptr && *xdg == '/') return std::string(xdg) + "/lares";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && *home != '\0' ? home : "/root") + "/.local/share/lares";
}

Config default_config() {
  Config config;
  for (const Setting& setting : settings()) {
    const Result<> set = set_value(setting, setting.fallback, config);
    LARES_ASSERT(set.has_value(), "the default of {}: {}", setting.key, set.error().message);
  }
  return config;
}

Result<> read_toml(std::string_view text, const std::string& name, Config& config) {
  const Source source{name, std::filesystem::path(name).parent_path()};
  if (const auto at = stray_letter(text)) {
    const auto line = 1 + std::ranges::count(text.substr(0, *at), '\n');
    return fail(Code::Invalid, fmt::format("{}:{}: a letter beyond ASCII; write such in quotes, or "
                                           "in a comment",
                                           name, line));
  }
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    return source.at(parsed.error().source(), parsed.error().description());
  }
  for (const auto& [key, node] : parsed.table()) {
    const std::string_view section = key.str();
    if (section == "model") {
      TRY_VOID(read_models(source, node, config));
      continue;
    }
    if (section == "class") {
      TRY_VOID(read_classes(source, node, config));
      continue;
    }
    const auto sections = known_sections();
    if (std::ranges::find(sections, section) == sections.end()) {
      return source.at(key.source(), fmt::format("there is no section or key `{}`.{}", section,
                                                 suggestion(section, sections)));
    }
    const auto* table = node.as_table();
    if (table == nullptr) {
      return source.at(key.source(),
                       fmt::format("`{}` is a section: write [{}]", section, section));
    }
    TRY_VOID(read_section(source, section, *table, config));
  }
  return {};
}

Result<> finish_config(Config& config) {
  TRY_VOID(split_listen(config));
  TRY_VOID(check_classes(config.classes));
  if (config.data.empty()) config.data = default_data_folder();
  if (config.models_folder.empty()) config.models_folder = config.data + "/models";
  return {};
}

Result<Config> load_config(std::span<const std::string> arguments) {
  Config config = default_config();
  const std::vector<Flag> flags = TRY(split_flags(arguments, config.help));
  if (config.help) return config;
  for (const Flag& flag : flags) {
    if (flag.name != "--config") continue;
    TRY_VOID(read_toml(TRY(file_text(flag.value)), flag.value, config));
  }
  for (const Flag& flag : flags) {
    if (flag.name == "--config") continue;
    if (const Result<> set = set_value(*setting_by_flag(flag.name), flag.value, config); !set) {
      return fail(Code::Invalid, fmt::format("{}: {}", flag.name, set.error().message));
    }
  }
  TRY_VOID(finish_config(config));
  return config;
}

}  // namespace lares::app
