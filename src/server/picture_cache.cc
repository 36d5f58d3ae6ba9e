#include "server/picture_cache.h"

#include <algorithm>

#include "core/assert.h"

namespace lares::server {

std::optional<engine::Handle> PictureCache::take(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  ++entry.users;
  ++entry.hits;
  entry.used = ++clock_;
  return entry.handle;
}

bool PictureCache::keep(const Key& key, engine::Handle handle, Bytes bytes, std::uint64_t work) {
  if (bytes > most_ || entries_.contains(key)) return false;
  held_ += bytes;
  entries_[key] = {.handle = handle, .bytes = bytes, .work = work, .users = 1, .used = ++clock_};
  return true;
}

void PictureCache::let_go(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;  // Dropped with its model.
  LARES_ASSERT(found->second.users > 0, "`{}` is let go by nobody", key.value);
  --found->second.users;
}

// Work saved per KiB, times how often it was, less for what was not used for long.
std::uint64_t PictureCache::worth(const Entry& entry) const {
  const std::uint64_t age = clock_ - entry.used + 1;
  const auto kib = static_cast<std::uint64_t>(entry.bytes.count / 1024 + 1);
  return (entry.work + 1) * (entry.hits + 1) * (1U << 20U) / (kib * age);
}

std::vector<PictureCache::Evicted> PictureCache::evict() {
  std::vector<Evicted> gone;
  while (held_ > most_) {
    auto least = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second.users > 0) continue;
      if (least == entries_.end() || worth(it->second) < worth(least->second)) least = it;
    }
    if (least == entries_.end()) break;
    held_ -= least->second.bytes;
    gone.push_back({least->first.model, least->second.handle});
    entries_.erase(least);
  }
  return gone;
}

void PictureCache::drop(std::uint32_t model) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->first.model != model) {
      ++it;
      continue;
    }
    held_ -= it->second.bytes;
    it = entries_.erase(it);
  }
}

std::vector<std::string> PictureCache::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, entry] : entries_) all.push_back(key.value);
  return all;
}

}  // namespace lares::server
