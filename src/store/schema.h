// The one database of a data folder, DIR/lares.db: its tables, and how an older file is brought up
// to date.
#pragma once

#include <string>

#include "core/result.h"
#include "store/sqlite.h"

namespace lares::store {

// Opens for writing, or creates, folder included, and migrates. Errors: Io (cannot be written; says
// which folder and why), Corrupt, Unsupported (made by a newer version).
Result<Database> open_database(const std::string& folder);

// What is there already, migrated if it is older. Errors: NotFound, with `missing` as its message,
// and as above.
Result<Database> open_existing_database(const std::string& folder, Access access,
                                        const std::string& missing);

}  // namespace lares::store
