// `lares backup` and `lares export`: what lasts, as files for elsewhere.
#pragma once

#include <span>
#include <string>

#include "store/usage.h"

namespace lares::app {

// Arguments after the verb: FILE [--data DIR]. Returns the exit status.
int run_backup_command(std::span<const std::string> arguments);

// Arguments after the verb: usage --csv|--json [--data DIR]. Prints to standard output.
int run_export_command(std::span<const std::string> arguments);

// One line each; of a spreadsheet (RFC 4180, with usage_csv_head() first) and of JSON.
std::string usage_csv_head();
std::string usage_csv(const store::UsageRow& row);
std::string usage_row_json(const store::UsageRow& row);

}  // namespace lares::app
