#include "server/failed_keys.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace lares::server {

std::string source_of(std::string_view address) {
  const std::string text(address.substr(0, address.find('%')));
  in6_addr parsed{};
  if (::inet_pton(AF_INET6, text.c_str(), &parsed) != 1) return text;
  if (IN6_IS_ADDR_V4MAPPED(&parsed)) return text.substr(text.rfind(':') + 1);
  std::memset(parsed.s6_addr + 8, 0, 8);
  char out[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET6, &parsed, out, sizeof out);
  return out;
}

Duration FailedKeys::note(std::string_view address, Instant now) {
  std::string source = source_of(address);
  auto found = until_.find(source);
  if (found == until_.end()) {
    if (until_.size() >= options_.sources_max) make_room(now);
    found = until_.emplace(std::move(source), now).first;
  }
  // Each failure takes `each` to pay off; who owes for a whole burst is told to wait.
  Instant& until = found->second;
  until = std::max(until, now);
  const Duration owed = until - now;
  const Duration most = options_.each * (options_.burst - 1);
  if (owed > most) return owed - most;
  until += options_.each;
  return Duration{0};
}

void FailedKeys::make_room(Instant now) {
  std::erase_if(until_, [now](const auto& entry) { return entry.second <= now; });
  while (until_.size() >= options_.sources_max) {
    until_.erase(std::ranges::min_element(until_, {}, [](const auto& e) { return e.second; }));
  }
}

}  // namespace lares::server
