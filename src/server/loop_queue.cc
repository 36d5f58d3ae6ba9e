// Requests as they come in: what is refused at the door, what a newer one takes the place of, and
// where those that wait stand.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/text.h"
#include "server/loop_core.h"

namespace lares::server {
namespace {

std::string reason_of(const sched::Scheduler::Place& place) {
  using Why = sched::Scheduler::Why;
  switch (place.why) {
    case Why::ModelLoads: return "loading model";
    case Why::OwnLimit: return "as many of your own run as your limit allows";
    case Why::Memory: return "waiting for memory";
    case Why::Order: break;
  }
  if (place.position == 0) return "next";
  if (place.ahead_own == place.position)
    return fmt::format("behind {} of your own", place.ahead_own);
  return fmt::format("behind {}, {} of them your own", place.position, place.ahead_own);
}

}  // namespace

void LoopCore::on(SubmitCommand command) {
  if (stopping_) return turn_away(command);
  supersede(command.generation);
  Request& request = requests_[command.id];
  request.id = command.id;
  request.generation = std::move(command.generation);
  request.sink = std::move(command.sink);
  request.accepted_at = command.at;
  request.accepted_unix_ms = command.unix_ms;
  if (const auto over = over_quota(request)) {
    const std::string& who = request.generation.member.name;
    return fail_request(
        request.id,
        Error{Code::Busy, fmt::format("{} used {} in the last 24 hours; the next "
                                      "request is taken in {}",
                                      who, over->what, format_duration(over->wait))},
        "member_quota", over->wait);
  }
  if (request.generation.queue_events) queue_listeners_.insert(request.id);
  begin(request);
}

// What is under way counts as far as it has got; it is never ended for the limit.
std::optional<DayUsage::Over> LoopCore::over_quota(const Request& request) const {
  const MemberShare& member = request.generation.member;
  if (member.limits.tokens_a_day == 0 && member.limits.device_seconds_a_day == 0) return {};
  store::DeviceUse under_way;
  for (const auto& [id, other] : requests_) {
    if (other.generation.member.id != member.id) continue;
    under_way += {std::uint64_t{other.prompt_tokens} + other.usage.output_tokens, other.device};
  }
  for (const EndedRow& ended : ended_rows_) {
    if (ended.row.member_id == member.id) under_way += store::use_of(ended.row);
  }
  return day_usage_.over(member.id, member.limits, under_way, request.accepted_unix_ms);
}

void LoopCore::supersede(const Generation& newer) {
  if (newer.supersede.empty()) return;
  std::vector<JobId> older;
  for (const auto& [id, request] : requests_) {
    const Generation& other = request.generation;
    if (other.member.id == newer.member.id && other.supersede == newer.supersede)
      older.push_back(id);
  }
  for (const JobId id : older) {
    end_request(id, store::Outcome::Cancelled,
                Error{Code::Conflict,
                      "a newer request with the same X-Lares-Supersede took its "
                      "place"},
                "superseded");
  }
}

std::vector<QueueEntry> LoopCore::queue_entries() {
  std::vector<QueueEntry> entries;
  std::map<JobId, std::size_t> by_request;
  for (const auto& [id, request] : requests_) {
    by_request[id] = entries.size();
    QueueEntry& e = entries.emplace_back();
    e.id = id;
    e.member = request.generation.member.id;
    e.name = request.generation.member.name;
    e.cls = request.generation.cls;
    e.model = request.at == Request::At::Model ? request.generation.model
                                               : models_[request.model].entry.name;
    e.running = request.first_run_at.has_value();
    e.waited = now() - request.accepted_at;
    e.prompt_tokens = request.prompt_tokens;
    e.output_tokens = request.usage.output_tokens;
    if (!e.running) e.reason = "its prompt is being prepared";
  }
  for (const sched::Scheduler::Place& place : scheduler_.queue()) {
    const auto choice = choices_.find(place.job);
    if (choice == choices_.end()) continue;
    QueueEntry& e = entries[by_request.at(choice->second.first)];
    if (e.running) continue;  // Another of its choices runs already.
    e.position = place.position;
    e.estimate = place.estimate;
    e.reason = reason_of(place);
  }
  return entries;
}

void LoopCore::on(QueueCommand command) {
  command.done(queue_entries());
}

// Streams that asked for it hear where they stand: at once, and whenever it has changed.
void LoopCore::tell_queue() {
  if (queue_listeners_.empty() || now() < queue_told_at_ + kQueueNews) return;
  queue_told_at_ = now();
  for (QueueEntry& e : queue_entries()) {
    const auto listener = queue_listeners_.find(e.id);
    if (listener == queue_listeners_.end() || e.running) continue;
    Request& request = requests_.at(e.id);
    if (request.at != Request::At::Scheduled) continue;
    if (!request.first_estimate) request.first_estimate = e.estimate;
    QueueNews news{.position = e.position, .reason = std::move(e.reason), .estimate = e.estimate};
    if (request.told_queue && news.position == request.told_queue->position &&
        news.reason == request.told_queue->reason) {
      continue;
    }
    request.told_queue = news;
    tell(request, std::move(news));
  }
}

void LoopCore::waits_no_more(const Request& request) {
  if (queue_listeners_.erase(request.id) == 0 || !request.first_run_at) return;
  if (!request.first_estimate) return;
  const Duration waited = *request.first_run_at - *request.scheduled_at;
  metrics_.estimate_error_seconds.observe(std::abs(in_seconds(waited - *request.first_estimate)));
}

}  // namespace lares::server
