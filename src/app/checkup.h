// What `lares doctor` looks at: the machine, the data folder and its disk, the address, the models,
// the clock. Each check finds something to say, and what to do about it if it is not well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/config.h"
#include "core/types.h"

namespace lares::app {

struct Finding {
  enum class Level : std::uint8_t { Well, Advice, Problem };

  Level level = Level::Well;
  std::string what;    // "the data folder has 12 GiB left"
  std::string advice;  // What to do; "" if all is well.
};
using Findings = std::vector<Finding>;

// Everything, problems first. Opens each model file in a throw-away child of `executable`, and
// writes a few MiB into the data folder for a moment.
Findings check_up(const Config& config, const std::string& executable);

// The single checks, for tests.
Finding check_processor();
Findings check_memory(const Config& config);
Finding check_data_folder(const std::string& folder);
Finding check_disk(const std::string& folder);  // REQUIRES: it can be written.
Finding check_address(const Config& config);
Findings check_models(const Config& config, const std::string& executable);
// `now` and the newest request's time, in ms since 1970; 0 = there is none.
Finding check_clock(std::int64_t now_unix_ms, std::int64_t newest_unix_ms);

}  // namespace lares::app
