// Sends a load to a server and writes down when what came.
//
// One thread waits for all connections at once, and for `interrupt_fd`. A request is a connection.
// Every load is bounded: in requests under way, in all, and in time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "app/bench_load.h"
#include "app/bench_report.h"
#include "app/chat_client.h"
#include "core/result.h"

namespace lares::app {

struct BenchTarget {
  ServerAddress server{};
  std::string model{};                        // "": the server's default.
  std::map<std::string, std::string> keys{};  // Of members.
  std::string key{};                          // Of everybody else; "": none.
};

struct BenchLimits {
  std::uint32_t under_way = 256;   // Others wait until one is over.
  std::uint32_t requests = 20000;  // Of a run.
  Duration drain{};                // For what is under way when the last has been sent.
};

// Errors: Unavailable if nobody listens there. What requests fail of is in their records.
Result<BenchRun> run_bench(const BenchTarget& target, const BenchLimits& limits, Load& load,
                           std::uint64_t seed, int interrupt_fd);

// The body of one request.
std::string bench_body(const Ask& ask, const std::string& model, std::uint64_t seed,
                       std::uint64_t number);

}  // namespace lares::app
