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

// Every row, in the order of its end. Errors: Io, Corrupt.
Result<> each_usage(Database& database, const std::function<void(const UsageRow&)>& row);

}  // namespace lares::store
