// What of an answer in parts (words, thoughts, tool calls) a client has been told: turns ever
// longer readings of it into deltas.
//
// Pure; owned by the loop thread. Told text cannot be taken back: where a new reading contradicts
// it, nothing more of that part is told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/generation.h"
#include "text/text_engine.h"

namespace lares::server {

class AnswerParts {
 public:
  // Adds what is new to `out`. `whole`: nothing more comes. `seed` makes the calls' ids, unless the
  // model gave some: nine letters and digits, as the strictest template wants them.
  void advance(const text::ParsedChat& parsed, bool whole, std::uint64_t seed, TextDelta& out);

  [[nodiscard]] bool has_calls() const { return !calls_.empty(); }
  [[nodiscard]] bool empty() const {
    return content_.empty() && reasoning_.empty() && calls_.empty();
  }

 private:
  std::string content_;
  std::string reasoning_;
  std::vector<std::string> calls_;  // Arguments told of each.
};

// Of call `index`: the same for the same seed.
std::string call_id(std::uint64_t seed, std::uint32_t index);

}  // namespace lares::server
