#include "server/member_watch.h"

#include <utility>

#include "core/log.h"

namespace lares::server {

MemberWatch::MemberWatch(store::MemberStore store, std::vector<store::Member> members,
                         Duration period, Changed changed)
    : store_(std::move(store)),
      members_(std::move(members)),
      period_(period),
      changed_(std::move(changed)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void MemberWatch::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    look();
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, period_, [] { return false; });
  }
}

void MemberWatch::look() {
  // The version first: what is written between the two is then read once more, not missed.
  const auto version = store_.data_version();
  if (version && *version == version_) return;
  auto members = version ? store_.all() : tl::unexpected(version.error());
  if (!members) {
    if (!failing_) {
      log_error("the members cannot be read; those known stay", {{"why", members.error().message}});
    }
    failing_ = true;
    return;
  }
  failing_ = false;
  version_ = *version;
  if (*members == members_) return;
  members_ = std::move(*members);
  log_info("members changed", {{"members", members_.size()}});
  changed_(members_);
}

}  // namespace lares::server
