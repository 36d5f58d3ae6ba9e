// How rows of usage are written: for the ledger and the journal, which share the table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "store/sqlite.h"
#include "store/usage.h"

namespace lares::store {

// Within the caller's transaction. Of a job that has a row already, tokens are
// added to it, and the rest takes its place: the job was tried again. Errors: Io.
Result<> insert_usage(Database& database, std::span<const UsageRow> rows,
                      std::optional<std::int64_t> session);

// What a query selects so that usage_of() can read a row of its answer, from the first column on.
inline constexpr const char* kUsageColumns =
    "job, accepted_unix_ms, member, class, model, prompt_tokens, cached_tokens, output_tokens, "
    "device_ns, queue_wait_ns, model_load_ns, text_work_ns, prefill_ns, inference_ns, deliver_ns, "
    "first_token_ns, total_ns, outcome, reason, member_id, job_id";
inline constexpr int kUsageColumnCount = 21;
UsageRow usage_of(const Statement& row);

// Every row, in the order of its end. Errors: Io, Corrupt.
Result<> each_usage(Database& database, const std::function<void(const UsageRow&)>& row);

}  // namespace lares::store
