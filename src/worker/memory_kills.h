// How often the system has ended a process because memory ran out.
#pragma once

#include <cstdint>
#include <string>

namespace lares::worker {

// So far, in this process's control group or else on the machine; 0 where the system does not tell.
// Reads two small files.
std::uint64_t count_memory_kills();

// The number behind `oom_kill ` in such a file's text; 0 if it is not there.
std::uint64_t memory_kills_in(const std::string& text);

}  // namespace lares::worker
