// `lares usage`: what the ledger says, for people or as JSON.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "store/usage.h"

namespace lares::app {

// Arguments after the verb: [--by member|class|model|day] [--json] [--data DIR]. Prints to standard
// output; returns the exit status.
int run_usage_command(std::span<const std::string> arguments);

// An aligned table with a line of totals, or "no requests yet".
std::string usage_table(store::UsageBy by, const std::vector<store::UsageSum>& sums);

// A JSON array of objects, one a line.
std::string usage_json(store::UsageBy by, const std::vector<store::UsageSum>& sums);

}  // namespace lares::app
