// The journal's artefacts: small ones in their rows, large ones as blobs with counted references;
// and what is taken away when it is old, or too much.
#include <fmt/format.h>

#include "store/journal.h"

namespace lares::store {

Result<> Journal::put_artefact(std::int64_t seq, const Artefact& artefact) {
  TRY_VOID(drop_artefact(seq, artefact.name));
  Statement insert = TRY(
      database_.prepare("INSERT INTO artefact (job, name, media_type, status, size, bytes, blob) "
                        "VALUES (?,?,?,?,?,?,?)"));
  insert.bind(seq);
  insert.bind(artefact.name);
  insert.bind(artefact.media_type);
  insert.bind(std::int64_t{artefact.status});
  insert.bind(static_cast<std::int64_t>(artefact.bytes.size()));
  if (artefact.bytes.size() <= kInlineBytesMax) {
    insert.bind_bytes(artefact.bytes);
    insert.bind_null();
    return insert.run();
  }
  const std::string hash = TRY(put_blob(artefact.bytes));
  insert.bind_null();
  insert.bind(hash);
  return insert.run();
}

// One more reference to it.
Result<std::string> Journal::put_blob(std::string_view bytes) {
  std::string hash = TRY(blobs_.put(bytes));
  fresh_.push_back(hash);
  Statement blob =
      TRY(database_.prepare("INSERT INTO blob (hash, size, refs) VALUES (?,?,1) "
                            "ON CONFLICT DO UPDATE SET refs = refs + 1"));
  blob.bind(hash);
  blob.bind(static_cast<std::int64_t>(bytes.size()));
  TRY_VOID(blob.run());
  return hash;
}

Result<std::optional<Artefact>> Journal::artefact(std::int64_t seq, std::string_view name) {
  Statement query = TRY(database_.prepare(
      "SELECT media_type, status, bytes, blob FROM artefact WHERE job = ? AND name = ?"));
  query.bind(seq);
  query.bind(name);
  if (!TRY(query.row())) return std::optional<Artefact>();
  Artefact found{.name = std::string(name),
                 .media_type = std::string(query.text(0)),
                 .status = static_cast<int>(query.integer(1)),
                 .bytes = std::string(query.bytes(2))};
  if (!query.is_null(3)) found.bytes = TRY(blobs_.get(std::string(query.text(3))));
  return std::optional(std::move(found));
}

Result<std::vector<ArtefactHead>> Journal::artefacts(std::int64_t seq) {
  Statement query = TRY(
      database_.prepare("SELECT name, media_type, size FROM artefact WHERE job = ? ORDER BY name"));
  query.bind(seq);
  std::vector<ArtefactHead> heads;
  while (TRY(query.row())) {
    heads.push_back({std::string(query.text(0)), std::string(query.text(1)),
                     static_cast<std::uint64_t>(query.integer(2))});
  }
  return heads;
}

Result<> Journal::drop_artefact(std::int64_t seq, std::string_view name) {
  Statement gone =
      TRY(database_.prepare("DELETE FROM artefact WHERE job = ? AND name = ? RETURNING blob"));
  gone.bind(seq);
  gone.bind(name);
  if (!TRY(gone.row())) return {};
  const std::string hash(gone.text(0));
  TRY(gone.row());
  return hash.empty() ? Result<>() : release_blob(hash);
}

Result<> Journal::release_blob(const std::string& hash) {
  Statement less = TRY(database_.prepare("UPDATE blob SET refs = refs - 1 WHERE hash = ?"));
  less.bind(hash);
  TRY_VOID(less.run());
  Statement none = TRY(database_.prepare("DELETE FROM blob WHERE hash = ? AND refs <= 0"));
  none.bind(hash);
  TRY_VOID(none.run());
  if (database_.changes() > 0) doomed_.push_back(hash);
  return {};
}

// The job goes; that it was remains.
Result<> Journal::expire(std::int64_t seq, std::int64_t unix_ms) {
  Statement names = TRY(database_.prepare("SELECT name FROM artefact WHERE job = ?"));
  names.bind(seq);
  std::vector<std::string> artefacts;
  while (TRY(names.row())) artefacts.emplace_back(names.text(0));
  for (const std::string& name : artefacts) TRY_VOID(drop_artefact(seq, name));
  Statement mark =
      TRY(database_.prepare("INSERT INTO expired (id, member_id, unix_ms) "
                            "SELECT id, member_id, ? FROM job WHERE seq = ?"));
  mark.bind(unix_ms);
  mark.bind(seq);
  TRY_VOID(mark.run());
  Statement spent = TRY(
      database_.prepare("UPDATE session SET expired_ns = expired_ns + (SELECT sum(device_ns) FROM "
                        "attempt WHERE job = ?1 AND session = session.id) WHERE id IN "
                        "(SELECT session FROM attempt WHERE job = ?1)"));
  spent.bind(seq);
  TRY_VOID(spent.run());
  for (const char* rows :
       {"DELETE FROM attempt WHERE job = ?", "DELETE FROM event WHERE job = ?",
        "DELETE FROM webhook WHERE job = ?", "DELETE FROM checkpoint WHERE job = ?",
        "DELETE FROM job WHERE seq = ?"}) {
    Statement gone = TRY(database_.prepare(rows));
    gone.bind(seq);
    TRY_VOID(gone.run());
  }
  return {};
}

Result<std::int64_t> Journal::bytes_kept() {
  Statement sum =
      TRY(database_.prepare("SELECT (SELECT coalesce(sum(size), 0) FROM blob) + "
                            "(SELECT coalesce(sum(size), 0) FROM artefact WHERE blob IS NULL) + "
                            "(SELECT coalesce(sum(size), 0) FROM latent WHERE bytes IS NOT NULL)"));
  TRY(sum.row());
  return sum.integer(0);
}

Result<std::uint64_t> Journal::retain(const Retention& limits, std::int64_t unix_ms) {
  constexpr std::int64_t kMs = 1'000'000;
  std::uint64_t gone = 0;
  Statement old = TRY(database_.prepare(
      "SELECT seq FROM job WHERE ended_unix_ms < ? ORDER BY ended_unix_ms LIMIT 1000"));
  old.bind(unix_ms - limits.keep.count() / kMs);
  std::vector<std::int64_t> doomed;
  while (TRY(old.row())) doomed.push_back(old.integer(0));
  for (const std::int64_t seq : doomed) TRY_VOID(expire(seq, unix_ms));
  gone += doomed.size();
  Statement marks = TRY(database_.prepare("DELETE FROM expired WHERE unix_ms < ?"));
  marks.bind(unix_ms - limits.keep_expired.count() / kMs);
  TRY_VOID(marks.run());
  gone += TRY(retain_latents(limits, unix_ms));

  // Requests are part of a record, and so are the answers in words.
  for (const char* kind : {"a.media_type LIKE 'image/%'", "a.media_type = ?2"}) {
    while (TRY(bytes_kept()) > limits.bytes_max.count) {
      Statement next = TRY(database_.prepare(
          fmt::format("SELECT a.job, a.name FROM artefact a JOIN job ON job.seq = a.job "
                      "WHERE a.name <> ?1 AND {} AND job.ended_unix_ms IS NOT NULL "
                      "ORDER BY job.ended_unix_ms LIMIT 1",
                      kind)));
      next.bind(kRequest);
      if (std::string_view(kind).ends_with("?2")) next.bind(kLatentType);
      if (!TRY(next.row())) break;
      const std::int64_t job = next.integer(0);
      const std::string name(next.text(1));
      TRY_VOID(drop_artefact(job, name));
      ++gone;
    }
  }
  while (TRY(bytes_kept()) > limits.bytes_max.count) {
    if (!TRY(drop_oldest_latent(unix_ms))) break;
    ++gone;
  }
  while (TRY(bytes_kept()) > limits.bytes_max.count) {
    Statement next =
        TRY(database_.prepare("SELECT seq FROM job WHERE ended_unix_ms IS NOT NULL "
                              "ORDER BY ended_unix_ms LIMIT 1"));
    if (!TRY(next.row())) break;
    const std::int64_t seq = next.integer(0);
    TRY_VOID(expire(seq, unix_ms));
    ++gone;
  }
  return gone;
}

Result<> Journal::backup(const std::string& path) {
  TRY_VOID(database_.backup(path));
  Database copy = TRY(Database::open(path, Access::ReadWrite));
  Statement large =
      TRY(copy.prepare("SELECT blob FROM artefact WHERE blob IS NOT NULL UNION "
                       "SELECT blob FROM latent WHERE blob IS NOT NULL"));
  std::vector<std::string> hashes;
  while (TRY(large.row())) hashes.emplace_back(large.text(0));
  large.reset();
  for (const std::string& hash : hashes) {
    const auto bytes = blobs_.get(hash);
    // Retention took it after the copy was made: it is gone there as well.
    const bool gone = !bytes && bytes.error().code == Code::NotFound;
    if (!bytes && !gone) return tl::unexpected(bytes.error());
    for (const char* sql :
         {gone ? "DELETE FROM artefact WHERE blob = ?2"
               : "UPDATE artefact SET bytes = ?1, blob = NULL WHERE blob = ?2",
          gone ? "UPDATE latent SET blob = NULL, gone_unix_ms = expires_unix_ms WHERE blob = ?2"
               : "UPDATE latent SET bytes = ?1, blob = NULL WHERE blob = ?2"}) {
      Statement put = TRY(copy.prepare(sql));
      put.bind_bytes(gone ? std::string_view() : std::string_view(*bytes));
      put.bind(hash);
      TRY_VOID(put.run());
    }
  }
  return copy.execute("DELETE FROM blob");
}

}  // namespace lares::store
