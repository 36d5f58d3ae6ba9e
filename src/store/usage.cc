#include "store/usage.h"

#include <utility>

#include <fmt/format.h>

#include "store/schema.h"
#include "store/sqlite.h"
#include "store/usage_rows.h"

namespace lares::store {
namespace {

std::string_view key_of(UsageBy by) {
  switch (by) {
    case UsageBy::Member: return "member";
    case UsageBy::Class: return "class";
    case UsageBy::Model: return "model";
    // Days as people at this machine count them.
    case UsageBy::Day:
      return "strftime('%Y-%m-%d', accepted_unix_ms / 1000, 'unixepoch', 'localtime')";
  }
  return "member";
}

class SqliteLedger : public UsageLedger {
 public:
  explicit SqliteLedger(Database database) : database_(std::move(database)) {}

  Result<> record(const std::vector<UsageRow>& rows) override {
    if (rows.empty()) return {};
    Transaction transaction = TRY(Transaction::begin(database_));
    TRY_VOID(insert_usage(database_, rows, std::nullopt));
    return transaction.commit();
  }

  Result<std::vector<UsageSum>> sum(UsageBy by, std::optional<MemberId> of) override {
    Statement query = TRY(database_.prepare(fmt::format(
        "SELECT {} AS key, count(*), sum(outcome IN ('failed', 'refused')), "
        "sum(outcome = 'cancelled'), sum(prompt_tokens), sum(cached_tokens), sum(output_tokens), "
        "sum(device_ns) / 1e9, avg(queue_wait_ns) / 1e9, avg(first_token_ns) / 1e9 "
        "FROM usage{} GROUP BY key ORDER BY key",
        key_of(by), of ? " WHERE member_id = ?" : "")));
    if (of) query.bind(std::int64_t{of->value});
    std::vector<UsageSum> sums;
    while (TRY(query.row())) {
      UsageSum sum;
      sum.key = query.text(0);
      sum.requests = static_cast<std::uint64_t>(query.integer(1));
      sum.failed = static_cast<std::uint64_t>(query.integer(2));
      sum.cancelled = static_cast<std::uint64_t>(query.integer(3));
      sum.prompt_tokens = static_cast<std::uint64_t>(query.integer(4));
      sum.cached_tokens = static_cast<std::uint64_t>(query.integer(5));
      sum.output_tokens = static_cast<std::uint64_t>(query.integer(6));
      sum.device_s = query.real(7);
      sum.queue_wait_s_mean = query.real(8);
      sum.first_token_s_mean = query.real(9);
      sums.push_back(std::move(sum));
    }
    return sums;
  }

  Result<std::vector<PastUse>> used_since(std::int64_t unix_ms) override {
    Statement query = TRY(database_.prepare(
        "SELECT member_id, accepted_unix_ms / 900000 AS quarter, "
        "sum(prompt_tokens + output_tokens), sum(device_ns) FROM usage "
        "WHERE accepted_unix_ms >= ? GROUP BY member_id, quarter ORDER BY quarter"));
    query.bind(unix_ms);
    std::vector<PastUse> past;
    while (TRY(query.row())) {
      past.push_back({.member = MemberId{static_cast<std::uint32_t>(query.integer(0))},
                      .unix_ms = query.integer(1) * 900'000,
                      .use = {.tokens = static_cast<std::uint64_t>(query.integer(2)),
                              .device = Duration(query.integer(3))}});
    }
    return past;
  }

 private:
  Database database_;
};

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::Done: return "done";
    case Outcome::Failed: return "failed";
    case Outcome::Cancelled: return "cancelled";
    case Outcome::Refused: return "refused";
  }
  return "done";
}

DeviceUse use_of(const UsageRow& row) {
  return {std::uint64_t{row.prompt_tokens} + row.output_tokens, row.device};
}

Result<std::unique_ptr<UsageLedger>> UsageLedger::open(const std::string& folder) {
  return std::make_unique<SqliteLedger>(TRY(open_database(folder)));
}

Result<std::unique_ptr<UsageLedger>> UsageLedger::open_existing(const std::string& folder) {
  return std::make_unique<SqliteLedger>(TRY(open_existing_database(
      folder, Access::ReadOnly,
      fmt::format("there is no usage ledger in {} yet; `lares serve` starts one", folder))));
}

}  // namespace lares::store
