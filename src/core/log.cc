#include "core/log.h"

#include <atomic>
#include <chrono>
#include <ctime>

#include <unistd.h>

#include <fmt/chrono.h>

#include "core/text.h"

namespace lares {
namespace {

std::atomic<LogLevel> g_level{LogLevel::Info};

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::Debug: return "debug";
    case LogLevel::Info: return "info";
    case LogLevel::Warn: return "warn";
    case LogLevel::Error: return "error";
  }
  return "?";
}

void append_value(std::string& line, std::string_view value) {
  const bool plain =
      !value.empty() && value.find_first_of(" =\"\\\t\r\n") == std::string_view::npos;
  if (plain) {
    line += value;
    return;
  }
  line += '"';
  append_json_escaped(line, value);
  line += '"';
}

}  // namespace

void set_log_level(LogLevel level) {
  g_level = level;
}

void log_line(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (level < g_level.load()) return;
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::string line =
      fmt::format("time={:%Y-%m-%dT%H:%M:%S}.{:03}Z level={} msg=",
                  fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms, level_name(level));
  append_value(line, message);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
  }
  line += '\n';
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace lares
