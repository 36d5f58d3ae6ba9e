// The frame of a verb of the command line: its help, its errors on stderr under its name, its exit
// status. 2: the flags are wrong; 1: it failed; else what it came to.
#pragma once

#include <cstdio>
#include <optional>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "core/result.h"

namespace lares::app {

// `run` takes the options and returns Result<int>, an exit status, or Result<>. Errors of the code
// `as_flags` exit with 2, too. Options without a `help` leave that to somebody before.
template <class Options, class Run>
int run_verb(std::string_view verb, std::string_view help, const Result<Options>& options,
             const Run& run, std::optional<Code> as_flags = std::nullopt) {
  if (!options) {
    fmt::print(stderr, "lares {}: {}\n", verb, options.error().message);
    return 2;
  }
  if constexpr (requires { options->help; }) {
    if (options->help) {
      fmt::print("{}", help);
      return 0;
    }
  }
  const auto done = run(*options);
  if (!done) {
    fmt::print(stderr, "lares {}: {}\n", verb, done.error().message);
    return done.error().code == as_flags ? 2 : 1;
  }
  if constexpr (std::is_same_v<std::remove_cv_t<decltype(done)>, Result<int>>) return *done;
  return 0;
}

}  // namespace lares::app
