// What people look at of the usage ledger: single requests with their clocks, and who used how much
// in each hour.
//
// Read-only, for one thread; the server may write meanwhile. Costs do not grow with the ledger's
// size but with what is asked for: a page of requests, the hours since a moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "store/sqlite.h"
#include "store/usage.h"

namespace lares::store {

// What one member's requests of one class took, of those accepted in one hour.
struct HourUse {
  std::int64_t unix_s = 0;  // The hour's beginning.
  MemberId member_id;
  std::string member, cls;
  std::uint64_t requests = 0, prompt_tokens = 0, output_tokens = 0;
  Duration device{};
  Duration wait_mean{}, wait_max{}, first_token_mean{};  // 0: none came so far.
};

struct PastRequest {
  std::int64_t number = 0;  // Grows in the order in which they ended.
  UsageRow row;
};

class UsageView {
 public:
  // Errors: NotFound if there is no ledger yet, Io, Corrupt.
  static Result<UsageView> open(const std::string& folder);

  // Of requests accepted since then, oldest hour first.
  Result<std::vector<HourUse>> hours(std::int64_t since_unix_ms);
  // The newest first: those with a number below `before` (0: from the newest), at most `limit`; of
  // everybody, or of one member alone.
  Result<std::vector<PastRequest>> requests(std::optional<MemberId> of, std::int64_t before,
                                            std::uint32_t limit);
  // Accepted since then, the oldest first, of which the newest `most` at most.
  Result<std::vector<UsageRow>> accepted_since(std::int64_t unix_ms, std::uint32_t most);

 private:
  explicit UsageView(Database database) : database_(std::move(database)) {}

  Database database_;
};

}  // namespace lares::store
