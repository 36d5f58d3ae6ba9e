// `lares doctor`: what this configuration promises on this machine, where time went, what to
// change.
#pragma once

#include <span>
#include <string>

#include "sched/scheduler.h"
#include "sim/simulate.h"

namespace lares::app {

struct Config;

// The scheduler's options as `lares serve` would set them.
sched::Options scheduler_options(const Config& config);

// The model that served last from that data folder, as a device for the simulator; two-core-0.1b,
// and `about` says so, if none has.
sim::SimulatedDevice device_of_this_machine(const std::string& data_folder);

// `executable`: this program, whose children open model files. Returns the exit status: 0, 1 if
// something needs mending, or 2 for arguments or a configuration that make no sense.
int run_doctor_command(std::span<const std::string> arguments, const std::string& executable);

}  // namespace lares::app
