// `lares model`: which models there are, what they can do, and whether they are loaded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"

namespace lares::app {

// Arguments after the verb; see kHelp in the source. `executable` is our own binary, from which
// files are opened in children. Returns the exit status.
int run_model_command(std::span<const std::string> arguments, const std::string& executable);

// One model, as a running server or the file itself describes it.
struct ModelRow {
  std::string name, path, architecture;
  std::string state;  // Of the server's: "ready" is loaded; "" = no server was asked.
  std::string error;
  std::uint64_t bytes = 0, parameters = 0;
  std::uint32_t context = 0;
  bool generates = false, embeds = false;
  bool cut_anywhere = true;  // Prompts that begin alike share what was computed.
};

// An aligned table, or "no models".
std::string model_table(const std::vector<ModelRow>& rows);
std::string model_json(const ModelRow& row);
// The answer of GET /v1/models. Errors: Corrupt.
Result<std::vector<ModelRow>> read_models(const std::string& body);

}  // namespace lares::app
