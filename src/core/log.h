// Log lines in logfmt to standard error: one line, key=value, quoted where needed.
//
// Thread-safe (one write(2) a line). Never give it prompts, keys or generated text. The pure
// modules (sched, sketch) do not log; they return events.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

namespace lares {

enum class LogLevel : unsigned char { Debug, Info, Warn, Error };

// One key and its value, formatted.
struct LogField {
  std::string_view key;
  std::string value;

  LogField(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  template <class T>
  requires std::is_arithmetic_v<T> LogField(std::string_view k, T v)
      : key(k), value(fmt::format("{}", v)) {}
};

// Least level that is written; the default is Info.
void set_log_level(LogLevel level);

// log_line(LogLevel::Info, "worker started", {{"pid", pid}, {"kind", "device"}});
void log_line(LogLevel level, std::string_view message,
              std::initializer_list<LogField> fields = {});

inline void log_info(std::string_view m, std::initializer_list<LogField> f = {}) {
  log_line(LogLevel::Info, m, f);
}
inline void log_warn(std::string_view m, std::initializer_list<LogField> f = {}) {
  log_line(LogLevel::Warn, m, f);
}
inline void log_error(std::string_view m, std::initializer_list<LogField> f = {}) {
  log_line(LogLevel::Error, m, f);
}

}  // namespace lares
