// Scenarios for the simulator, as TOML: who asks for what, how often.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "sim/workload.h"

namespace lares::app {

// Errors: Invalid, with the line, for anything that is not known.
Result<sim::Workload> read_scenario(std::string_view toml, const std::string& name,
                                    std::uint32_t seed);

}  // namespace lares::app
