#include "sched/event.h"

#include "core/hash.h"

namespace lares::sched {

void Decision::clear() {
  actions.clear();
  items.clear();
  charges.clear();
  wake_at = Instant::max();
}

void append_prefix_keys(const PrefixScope& scope, std::span<const std::int32_t> tokens,
                        std::vector<std::uint64_t>& out) {
  const std::size_t whole = tokens.size() / kBlockTokens;
  for (std::size_t block = out.size(); block < whole; ++block) {
    std::uint64_t key =
        block == 0 ? mix64(scope.shared_blocks > 0 ? scope.shared : scope.own) : out[block - 1];
    if (block > 0 && block == scope.shared_blocks) key = hash_combine(key, scope.own);
    for (const std::int32_t token : tokens.subspan(block * kBlockTokens, kBlockTokens)) {
      key = hash_combine(key, static_cast<std::uint32_t>(token));
    }
    out.push_back(key);
  }
}

}  // namespace lares::sched
