#include "store/usage_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/schema.h"
#include "store/usage_rows.h"

namespace lares::store {
namespace {

constexpr std::int64_t kHourMs = 3'600'000;

Duration mean_of(const Statement& row, int column) {
  return row.is_null(column) ? Duration{} : Duration(static_cast<std::int64_t>(row.real(column)));
}

}  // namespace

Result<UsageView> UsageView::open(const std::string& folder) {
  return UsageView(TRY(open_existing_database(
      folder, Access::ReadOnly, fmt::format("there is no usage ledger in {} yet", folder))));
}

Result<std::vector<HourUse>> UsageView::hours(std::int64_t since_unix_ms) {
  Statement query = TRY(database_.prepare(
      fmt::format("SELECT accepted_unix_ms / {0} AS hour, member_id, member, class, count(*), "
                  "sum(prompt_tokens), sum(output_tokens), sum(device_ns), avg(queue_wait_ns), "
                  "max(queue_wait_ns), avg(first_token_ns) FROM usage WHERE accepted_unix_ms >= ? "
                  "GROUP BY hour, member_id, member, class ORDER BY hour, member, class",
                  kHourMs)));
  query.bind(since_unix_ms);
  std::vector<HourUse> uses;
  while (TRY(query.row())) {
    HourUse& use = uses.emplace_back();
    use.unix_s = query.integer(0) * (kHourMs / 1000);
    use.member_id = MemberId{static_cast<std::uint32_t>(query.integer(1))};
    use.member = query.text(2);
    use.cls = query.text(3);
    use.requests = static_cast<std::uint64_t>(query.integer(4));
    use.prompt_tokens = static_cast<std::uint64_t>(query.integer(5));
    use.output_tokens = static_cast<std::uint64_t>(query.integer(6));
    use.device = Duration(query.integer(7));
    use.wait_mean = mean_of(query, 8);
    use.wait_max = mean_of(query, 9);
    use.first_token_mean = mean_of(query, 10);
  }
  return uses;
}

Result<std::vector<PastRequest>> UsageView::requests(std::optional<MemberId> of,
                                                     std::int64_t before, std::uint32_t limit) {
  // Both ways it is a walk along an index, from the newest on.
  Statement query = TRY(database_.prepare(
      fmt::format("SELECT {}, rowid FROM usage WHERE rowid < ?{} ORDER BY rowid DESC LIMIT ?",
                  kUsageColumns, of ? " AND member_id = ?" : "")));
  query.bind(before > 0 ? before : INT64_MAX);
  if (of) query.bind(std::int64_t{of->value});
  query.bind(std::int64_t{limit});
  std::vector<PastRequest> found;
  while (TRY(query.row())) {
    found.push_back({.number = query.integer(kUsageColumnCount), .row = usage_of(query)});
  }
  return found;
}

Result<std::vector<UsageRow>> UsageView::accepted_since(std::int64_t unix_ms, std::uint32_t most) {
  Statement query =
      TRY(database_.prepare(fmt::format("SELECT {} FROM usage WHERE accepted_unix_ms >= ? "
                                        "ORDER BY accepted_unix_ms DESC, rowid DESC LIMIT ?",
                                        kUsageColumns)));
  query.bind(unix_ms);
  query.bind(std::int64_t{most});
  std::vector<UsageRow> rows;
  while (TRY(query.row())) rows.push_back(usage_of(query));
  std::ranges::reverse(rows);
  return rows;
}

}  // namespace lares::store
