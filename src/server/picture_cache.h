// Which conditioning and latents are kept beside the device for the next time: by key, within a
// limit of bytes, by the work they save for each byte. Keys hold whose they are.
//
// An entry in use is never evicted. Pure; owned by the loop thread. Handles stay the worker's: what
// is evicted is handed back to be forgotten there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"
#include "engine/picture.h"

namespace lares::server {

class PictureCache {
 public:
  struct Key {
    std::uint32_t model = 0;
    std::string value{};
    auto operator<=>(const Key&) const = default;
  };
  struct Evicted {
    std::uint32_t model = 0;
    engine::Handle handle{};
  };

  explicit PictureCache(Bytes most) : most_(most) {}

  // In use from now on, until let_go().
  std::optional<engine::Handle> take(const Key& key);
  // `work` is what making it cost, in passes weighed alike. In use from now on. False if the key is
  // there already, or it alone is too large.
  bool keep(const Key& key, engine::Handle handle, Bytes bytes, std::uint64_t work);
  void let_go(const Key& key);
  // What must go for the limit; to be forgotten.
  std::vector<Evicted> evict();
  // The model's handles are gone.
  void drop(std::uint32_t model);
  void clear() { entries_.clear(), held_ = {}; }

  [[nodiscard]] Bytes held() const { return held_; }
  [[nodiscard]] std::vector<std::string> keys() const;

 private:
  struct Entry {
    engine::Handle handle{};
    Bytes bytes{};
    std::uint64_t work = 0;
    std::uint32_t users = 0;
    std::uint32_t hits = 0;
    std::uint64_t used = 0;
  };
  [[nodiscard]] std::uint64_t worth(const Entry& entry) const;

  const Bytes most_;
  Bytes held_{};
  std::uint64_t clock_ = 0;  // Counts uses.
  std::map<Key, Entry> entries_;
};

}  // namespace lares::server
