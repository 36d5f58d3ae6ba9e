// Units in which the settings' tables are written: bytes, and times in nanoseconds.
#pragma once

namespace lares::app {

inline constexpr double kKiB = 1024;
inline constexpr double kMiB = 1024 * kKiB;
inline constexpr double kGiB = 1024 * kMiB;
inline constexpr double kMs = 1e6;
inline constexpr double kSecond = 1e9;
inline constexpr double kHour = 3600 * kSecond;

}  // namespace lares::app
