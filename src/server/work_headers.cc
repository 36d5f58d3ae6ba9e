#include "server/work_headers.h"

#include <fmt/format.h>

#include "core/hash.h"

namespace lares::server {
namespace {

constexpr std::size_t kNameBytesMax = 128;

tl::unexpected<ApiError> too_long(std::string_view header, std::string_view code) {
  ApiError error;
  error.code = Code::Invalid;
  error.error_code = code;
  error.message = fmt::format("{} may have {} bytes at most", header, kNameBytesMax);
  return tl::unexpected(std::move(error));
}

}  // namespace

tl::expected<void, ApiError> read_work_headers(const HttpRequest& request, Generation& generation) {
  const std::string_view task = request.header("x-lares-task");
  const std::string_view supersede = request.header("x-lares-supersede");
  if (task.size() > kNameBytesMax) return too_long("X-Lares-Task", "task_too_long");
  if (supersede.size() > kNameBytesMax) return too_long("X-Lares-Supersede", "supersede_too_long");
  if (!task.empty()) generation.task = TaskId{hash_text(task) | 1U};  // 0 means none.
  generation.supersede = supersede;
  generation.job = request.job.lock();
  return {};
}

tl::expected<bool, ApiError> wants_queue_events(const HttpRequest& request) {
  const std::string_view events = request.header("x-lares-events");
  if (events.empty() || events == "queue") return !events.empty();
  ApiError error;
  error.code = Code::Invalid;
  error.error_code = "events_unknown";
  error.message = "X-Lares-Events may be `queue` and nothing else";
  return tl::unexpected(std::move(error));
}

}  // namespace lares::server
