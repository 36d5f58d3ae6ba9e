// `lares member`: who has a key to this server, and what it allows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "store/members.h"

namespace lares::app {

// Arguments after the verb: add, set, list, show, rotate, remove; kHelp in the source has the rest.
// A new key is the only thing on standard output, so that a script can keep it; `--json` prints an
// object. Returns the exit status.
int run_member_command(std::span<const std::string> arguments);

// An aligned table, or "no members yet".
std::string member_table(const std::vector<store::Member>& members);

// One JSON object, with the key if it is not "".
std::string member_json(const store::Member& member, std::string_view key = "");

}  // namespace lares::app
