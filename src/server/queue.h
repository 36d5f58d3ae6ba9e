// Who waits for what: the loop's answer to GET /v1/queue, and to streams that ask for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/types.h"
#include "server/generation.h"

namespace lares::server {

struct QueueEntry {
  JobId id;  // The request's.
  MemberId member;
  std::string name{};  // The member's.
  std::string cls, model;
  bool running = false;
  std::uint32_t position = 0;  // Among all that wait: how many go before it.
  std::string reason;          // Why it waits, for a person; "" while it runs.
  Duration waited{};           // Since it was accepted.
  Duration estimate{};         // Until it begins; 0 while it runs.
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
};

// The caller's own entries whole, the others as counts; an admin sees all whole.
std::string queue_json(const std::vector<QueueEntry>& entries, MemberId caller, bool admin);

// The same as an event of a stream: `event: queue`.
std::string queue_event(const QueueNews& news);

}  // namespace lares::server
