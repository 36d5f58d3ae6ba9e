// Expected failures as values: Result<T>, the closed set of codes, and TRY.
//
// Three kinds of "no" (docs/ARCHITECTURE.md): a bug is LARES_ASSERT; an expected failure is an
// Error here; a refused or cancelled job is data in the scheduler's decision.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace lares {

// What kind of failure. One table (server/errors.h) maps each to an HTTP status.
enum class Code : std::uint8_t {
  Invalid,      // What was asked makes no sense; asking again will not help.
  NotFound,     // The thing named does not exist.
  TooLarge,     // Beyond a limit; the message says which and by how much.
  Busy,         // A limit on work in progress is reached; try again later.
  Unavailable,  // A part that is needed is not there right now.
  Unsupported,  // Understood, but this engine or model cannot do it.
  Corrupt,      // Stored or received bytes are not what they should be.
  Io,           // The operating system said no.
  Forbidden,    // The caller may not do this.
  Conflict,     // Contradicts what is already there.
};

// A code for programs and a sentence for people: what failed, and what to do about it.
struct [[nodiscard]] Error {
  Code code = Code::Invalid;
  std::string message;
};

template <class T = void>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace lares

// Evaluates to the value, or returns the error from the enclosing function.
#define TRY(expression)                                                    \
  __extension__({                                                          \
    auto&& try_result = (expression);                                      \
    if (!try_result) return tl::unexpected(std::move(try_result.error())); \
    *std::move(try_result);                                                \
  })

// The same for Result<void>.
#define TRY_VOID(expression)                                               \
  do {                                                                     \
    auto&& try_result = (expression);                                      \
    if (!try_result) return tl::unexpected(std::move(try_result.error())); \
  } while (false)
