#include "server/queue.h"

#include <fmt/format.h>

#include "core/text.h"

namespace lares::server {
namespace {

std::string entry_json(const QueueEntry& e) {
  std::string out =
      fmt::format(R"({{"id":{},"state":"{}","member":{},"class":{},"model":{},"waited_s":{:.3f},)"
                  R"("prompt_tokens":{},)"
                  R"("output_tokens":{})",
                  json_quoted(fmt::format("{}", e.id.value)), e.running ? "running" : "queued",
                  json_quoted(e.name), json_quoted(e.cls), json_quoted(e.model),
                  in_seconds(e.waited), e.prompt_tokens, e.output_tokens);
  if (!e.running) {
    out += fmt::format(R"(,"position":{},"reason":{},"estimate_s":{:.3f})", e.position,
                       json_quoted(e.reason), in_seconds(e.estimate));
  }
  return out + '}';
}

}  // namespace

std::string queue_json(const std::vector<QueueEntry>& entries, MemberId caller, bool admin) {
  std::string own;
  std::uint32_t others_waiting = 0, others_running = 0;
  for (const QueueEntry& e : entries) {
    if (admin || e.member == caller) {
      own += (own.empty() ? "" : ",") + entry_json(e);
    } else {
      ++(e.running ? others_running : others_waiting);
    }
  }
  return fmt::format(R"({{"object":"queue","jobs":[{}],"others":{{"queued":{},"running":{}}}}})",
                     own, others_waiting, others_running);
}

std::string queue_event(const QueueNews& news) {
  return fmt::format(
      "event: queue\ndata: {{\"position\":{},\"reason\":{},\"estimate_s\":{:.3f}}}\n\n",
      news.position, json_quoted(news.reason), in_seconds(news.estimate));
}

}  // namespace lares::server
