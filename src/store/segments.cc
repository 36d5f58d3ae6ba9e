#include "store/segments.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "store/schema.h"

namespace lares::store {
namespace {

struct Part {
  const char* name;
  const char* expression;  // Nanoseconds, or null.
};

constexpr std::array kParts{
    Part{"queue", "max(queue_wait_ns - ifnull(model_load_ns, 0), 0)"},
    Part{"model_load", "model_load_ns"},
    Part{"text_work", "text_work_ns"},
    Part{"prefill", "prefill_ns"},
    Part{"inference", "inference_ns"},
    Part{"deliver", "max(deliver_ns - ifnull(inference_ns, 0), 0)"},
};

Result<Database> open_ledger(const std::string& folder) {
  return open_existing_database(folder, Access::ReadOnly,
                                fmt::format("nothing has served from {} yet", folder));
}

Result<Segment> segment_of(Database& ledger, const Part& part, std::int64_t unix_ms) {
  const std::string from = fmt::format(
      "FROM (SELECT {} AS ns FROM usage WHERE accepted_unix_ms >= ? AND outcome = 'done') "
      "WHERE ns IS NOT NULL",
      part.expression);
  Segment segment{.name = part.name};
  Statement sums =
      TRY(ledger.prepare(fmt::format("SELECT count(*), ifnull(sum(ns), 0) / 1e9 {}", from)));
  sums.bind(unix_ms);
  TRY(sums.row());
  segment.requests = static_cast<std::uint64_t>(sums.integer(0));
  segment.seconds = sums.real(1);
  if (segment.requests == 0) return segment;
  segment.mean_s = segment.seconds / static_cast<double>(segment.requests);
  Statement rank =
      TRY(ledger.prepare(fmt::format("SELECT ns / 1e9 {} ORDER BY ns LIMIT 1 OFFSET ?", from)));
  rank.bind(unix_ms);
  rank.bind(static_cast<std::int64_t>(segment.requests * 95 / 100));
  if (TRY(rank.row())) segment.p95_s = rank.real(0);
  return segment;
}

}  // namespace

Result<std::vector<Segment>> segments_since(const std::string& folder, std::int64_t unix_ms) {
  Database ledger = TRY(open_ledger(folder));
  std::vector<Segment> segments;
  for (const Part& part : kParts) {
    Segment segment = TRY(segment_of(ledger, part, unix_ms));
    if (segment.seconds > 0) segments.push_back(std::move(segment));
  }
  std::ranges::stable_sort(segments, std::greater<>{}, &Segment::seconds);
  return segments;
}

Result<std::int64_t> newest_request(const std::string& folder) {
  Database ledger = TRY(open_ledger(folder));
  Statement newest = TRY(ledger.prepare("SELECT ifnull(max(accepted_unix_ms), 0) FROM usage"));
  TRY(newest.row());
  return newest.integer(0);
}

}  // namespace lares::store
