// The usage ledger: one row a request, in SQLite.
//
// Written by the journal (store/journal.h); readers open the file themselves. Rows are not changed,
// but for that of a job that is tried again: it grows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/types.h"

namespace lares::store {

enum class Outcome : std::uint8_t { Done, Failed, Cancelled, Refused };
std::string_view outcome_name(Outcome outcome);

// Clocks of DESIGN.md 10 that exist so far; all monotone durations, -1 ns = never reached.
struct Clocks {
  Duration queue_wait{-1};   // Submitted to the scheduler until its first step began.
  Duration model_load{-1};   // Waiting for the model to be resident.
  Duration text_work{-1};    // Template and tokens.
  Duration prefill{-1};      // First step until the first token.
  Duration inference{-1};    // First token until the last.
  Duration deliver{-1};      // First to last byte handed over.
  Duration first_token{-1};  // Accepted until the first token.
  Duration total{-1};        // Accepted until ended.
};

struct UsageRow {
  std::uint64_t job = 0;
  std::int64_t accepted_unix_ms = 0;
  MemberId member_id;
  std::string member, cls, model;
  std::uint32_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  Duration device{};  // Its share of the steps it took part in.
  Clocks clocks;
  Outcome outcome = Outcome::Done;
  std::string reason;    // Stable error code for Failed, Cancelled and Refused; else "".
  std::string job_id{};  // Of a job of the journal (store/journal.h), its id; else "".
  // What kind of work it was, after OpenTelemetry's gen_ai.operation.name. The ledger has no such
  // column: rows that are read have "".
  std::string_view operation{};
};

// Where the device's time went since the server's start. All but `open` only grow.
//   wall = busy + idle + overhead
//   busy = device time of the rows recorded + open + unclaimed
struct DeviceTotals {
  Duration wall{};
  Duration busy{};       // Steps, as the worker measures them.
  Duration idle{};       // Nothing was there to compute.
  Duration overhead{};   // A step was under way, and the device did not compute.
  Duration open{};       // Of busy: charged to requests whose rows are still to come.
  Duration unclaimed{};  // Of busy: charged to nobody, as steps of a worker that died.
};

// What jobs took: tokens of prompts, found in the cache or not, and of output; and device time.
struct DeviceUse {
  std::uint64_t tokens = 0;
  Duration device{};

  DeviceUse& operator+=(const DeviceUse& other) {
    tokens += other.tokens;
    device += other.device;
    return *this;
  }
  DeviceUse& operator-=(const DeviceUse& other) {
    tokens -= other.tokens;
    device -= other.device;
    return *this;
  }
};

DeviceUse use_of(const UsageRow& row);

// The same, of one member, at one time.
struct PastUse {
  MemberId member;
  std::int64_t unix_ms = 0;
  DeviceUse use;
};

enum class UsageBy : std::uint8_t { Member, Class, Model, Day };

struct UsageSum {
  std::string key;
  std::uint64_t requests = 0, failed = 0, cancelled = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double device_s = 0, queue_wait_s_mean = 0, first_token_s_mean = 0;
};

class UsageLedger {
 public:
  // Opens or creates `folder`/lares.db and brings its schema up to date. Errors: Io (cannot be
  // written; says which folder and why), Corrupt, Unsupported (made by a newer version).
  static Result<std::unique_ptr<UsageLedger>> open(const std::string& folder);
  // Read-only, for the command line; NotFound if there is none yet.
  static Result<std::unique_ptr<UsageLedger>> open_existing(const std::string& folder);
  virtual ~UsageLedger() = default;

  // One transaction for all rows. Errors: Io (disk full...), nothing half-written.
  virtual Result<> record(const std::vector<UsageRow>& rows) = 0;
  // Of everybody, or of one member alone.
  virtual Result<std::vector<UsageSum>> sum(UsageBy by, std::optional<MemberId> of) = 0;
  // What members used since then, oldest first: a sum for each quarter of an hour, at its
  // beginning.
  virtual Result<std::vector<PastUse>> used_since(std::int64_t unix_ms) = 0;
  Result<std::vector<UsageSum>> sum(UsageBy by) { return sum(by, std::nullopt); }
};

}  // namespace lares::store
