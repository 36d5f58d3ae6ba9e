// The journal's share in the usage ledger: rows, where the device's time went, and whether all of
// it is exact.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "core/text.h"
#include "store/journal.h"
#include "store/usage_rows.h"

namespace lares::store {
namespace {

// Two sums of device time may differ by 1 %, or by what a short run cannot resolve.
constexpr std::int64_t kOnePercent = 100;
constexpr std::int64_t kSlackNs = 5'000'000;

bool agree(std::int64_t a, std::int64_t b) {
  return std::abs(a - b) <= std::max(std::max(a, b) / kOnePercent, kSlackNs);
}

std::string span_text(std::int64_t ns) {
  return (ns < 0 ? "-" : "") + format_duration(Duration(std::abs(ns)));
}

// What each query finds is a fault of the ledger; its first column names where.
struct Fault {
  const char* query;
  const char* sentence;
};
constexpr Fault kFaults[] = {
    {"SELECT id FROM job WHERE state IN ('done', 'failed', 'cancelled') AND "
     "(SELECT count(*) FROM usage WHERE job_id = job.id) <> 1",
     "job {} is over and has not exactly one usage row"},
    {"SELECT job_id FROM usage WHERE job_id IS NOT NULL AND NOT EXISTS "
     "(SELECT 1 FROM job WHERE id = job_id) AND NOT EXISTS "
     "(SELECT 1 FROM expired WHERE id = job_id) AND accepted_unix_ms > ?1",
     "a usage row names job {}, which never was"},
    {"SELECT id FROM job JOIN usage ON job_id = id WHERE state IN ('queued', 'running') AND NOT "
     "EXISTS (SELECT 1 FROM event WHERE event.job = seq AND name IN ('failed', 'cancelled'))",
     "job {} has a usage row and never ended"},
    {"SELECT id FROM job JOIN usage ON job_id = id WHERE state IN ('done', 'failed', 'cancelled') "
     "AND device_ns <> (SELECT coalesce(sum(a.device_ns), 0) FROM attempt a WHERE a.job = seq)",
     "the usage row of job {} is not the sum of its attempts"},
    {"SELECT id FROM job JOIN usage ON job_id = id WHERE state <> 'queued' AND state <> 'running' "
     "AND outcome <> state AND NOT (state = 'failed' AND outcome = 'refused')",
     "the usage row of job {} ended otherwise than the job"},
    {"SELECT hash FROM blob WHERE refs <> (SELECT count(*) FROM artefact WHERE blob = hash) + "
     "(SELECT count(*) FROM latent WHERE blob = hash)",
     "blob {} counts other references than it has"},
};
// Rows of jobs that even `expired` has forgotten are not looked up.
constexpr std::int64_t kForgottenMs = std::int64_t{80} * 24 * 3600 * 1000;

}  // namespace

Result<std::int64_t> Journal::begin_session(std::int64_t unix_ms) {
  Statement insert = TRY(database_.prepare("INSERT INTO session (started_unix_ms) VALUES (?)"));
  insert.bind(unix_ms);
  TRY_VOID(insert.run());
  return session_ = database_.last_row();
}

Result<> Journal::record(std::span<const UsageRow> rows) {
  return insert_usage(database_, rows, session_);
}

Result<> Journal::save_totals(const DeviceTotals& totals) {
  Statement update = TRY(database_.prepare(
      "UPDATE session SET wall_ns = ?, busy_ns = ?, idle_ns = ?, overhead_ns = ?, "
      "open_ns = ?, unclaimed_ns = ? WHERE id = ?"));
  for (const Duration part :
       {totals.wall, totals.busy, totals.idle, totals.overhead, totals.open, totals.unclaimed}) {
    update.bind(part.count());
  }
  update.bind(session_);
  return update.run();
}

Result<std::vector<std::string>> Journal::check() {
  std::vector<std::string> faults;
  Statement newest = TRY(database_.prepare("SELECT coalesce(max(accepted_unix_ms), 0) FROM usage"));
  TRY(newest.row());
  const std::int64_t since = newest.integer(0) - kForgottenMs;
  for (const Fault& fault : kFaults) {
    Statement query = TRY(database_.prepare(fault.query));
    if (std::string_view(fault.query).ends_with("?1")) query.bind(since);
    while (TRY(query.row()))
      faults.push_back(fmt::format(fmt::runtime(fault.sentence), query.text(0)));
  }
  Statement sessions = TRY(database_.prepare(
      "SELECT id, wall_ns, busy_ns, idle_ns, overhead_ns, open_ns + unclaimed_ns + expired_ns + "
      "(SELECT coalesce(sum(device_ns), 0) FROM usage WHERE session = session.id AND job_id IS "
      "NULL) + (SELECT coalesce(sum(device_ns), 0) FROM attempt WHERE session = session.id AND "
      "ended_unix_ms IS NOT NULL) FROM session"));
  while (TRY(sessions.row())) {
    const std::int64_t id = sessions.integer(0), wall = sessions.integer(1);
    const std::int64_t busy = sessions.integer(2), idle = sessions.integer(3);
    const std::int64_t overhead = sessions.integer(4), charged = sessions.integer(5);
    if (!agree(wall, busy + idle + overhead)) {
      faults.push_back(
          fmt::format("run {}: busy {}, idle {} and overhead {} are not its wall time {}", id,
                      span_text(busy), span_text(idle), span_text(overhead), span_text(wall)));
    }
    if (!agree(busy, charged)) {
      faults.push_back(
          fmt::format("run {}: the device computed for {}, and {} of it is accounted for", id,
                      span_text(busy), span_text(charged)));
    }
  }
  return faults;
}

Result<Journal::Times> Journal::times() {
  Statement query = TRY(database_.prepare(
      "SELECT coalesce(sum(wall_ns), 0), coalesce(sum(busy_ns), 0), coalesce(sum(idle_ns), 0), "
      "coalesce(sum(overhead_ns), 0), coalesce(sum(open_ns), 0), coalesce(sum(unclaimed_ns), 0), "
      "(SELECT coalesce(sum(device_ns), 0) FROM usage WHERE session IS NOT NULL) FROM session"));
  TRY(query.row());
  Times times;
  DeviceTotals& totals = times.totals;
  totals.wall = Duration(query.integer(0));
  totals.busy = Duration(query.integer(1));
  totals.idle = Duration(query.integer(2));
  totals.overhead = Duration(query.integer(3));
  totals.open = Duration(query.integer(4));
  totals.unclaimed = Duration(query.integer(5));
  times.of_members = Duration(query.integer(6));
  return times;
}

}  // namespace lares::store
