// The journal: jobs that outlive the server, in the data folder's database, and their blobs.
//
// A job exists once the transaction with its row is committed. One thread at a time; every call but
// open() belongs into a transaction of the caller, who commits many calls together:
//
//   journal.begin(); journal.add(...); journal.end(...); journal.commit();
//
//   1. A job that is over has exactly one usage row, and a usage row with a job's id belongs to a
//      job that is over, queued or running again, or expired.
//   2. That row's device time is the sum of its attempts'.
//   3. A blob's row counts the artefacts that name it; a file without a row is removed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "store/blob_store.h"
#include "store/job_record.h"
#include "store/latent_record.h"
#include "store/sqlite.h"
#include "store/usage.h"
#include "store/webhook_record.h"

namespace lares::store {

// Artefacts up to this size lie in the database: one flush with the row, and no file.
inline constexpr std::size_t kInlineBytesMax = 64U << 10U;

class Journal {
 public:
  // Opens or creates the database, and removes files that belong to no blob. Errors: as
  // open_database().
  static Result<std::unique_ptr<Journal>> open(const std::string& folder);
  // For the command line, without changing anything. NotFound if there is none yet.
  static Result<std::unique_ptr<Journal>> open_existing(const std::string& folder);

  // Errors of all: Io (disk full, read-only...), Busy (another process holds the lock), Corrupt.
  Result<> begin();
  Result<> commit();  // Returns once the disk has it.
  void roll_back();

  // The row of this run of the server, which attempts and usage rows name.
  Result<std::int64_t> begin_session(std::int64_t unix_ms);
  // Attempts that a run that is over left open are ended, and their jobs queued again. Returns
  // every job that is not over, in the order of acceptance.
  Result<std::vector<JobRecord>> recover(std::int64_t unix_ms);

  // Errors: Conflict, if the member has used the key.
  Result<JobRecord> add(const NewJob& job);
  Result<std::optional<JobRecord>> find(std::string_view id);
  Result<std::optional<JobRecord>> find_by_key(MemberId member, std::string_view key);
  // Whose it was, if there was a job of this id that retention took away.
  Result<std::optional<MemberId>> find_expired(std::string_view id);
  Result<std::vector<JobRecord>> list(const JobFilter& filter);  // The newest first.

  // Queued -> running. The number of the attempt.
  Result<std::uint32_t> begin_attempt(std::int64_t seq, std::int64_t unix_ms);
  // Keeps how far the running attempt has got, in place of what was kept before. A job that is not
  // running is left alone.
  Result<> save_progress(std::int64_t seq, const Progress& progress);
  Result<std::vector<Checkpoint>> checkpoints(std::int64_t seq);
  // Running -> queued; the attempt is over and `reason` says why.
  enum class Tries : std::uint8_t { Count, Forgive };
  Result<> end_attempt(std::int64_t seq, const std::string& reason, Duration device, Tries tries,
                       std::int64_t unix_ms);
  // -> over, with its usage row, its result and its event. A job that is over stays as it is.
  Result<> end(std::int64_t seq, JobEnd end);
  // Failed or cancelled -> queued, with fresh tries.
  Result<> reopen(std::int64_t seq, std::int64_t unix_ms);

  Result<std::vector<Attempt>> attempts(std::int64_t seq);
  Result<> add_event(std::int64_t seq, std::string_view name, std::string_view data,
                     std::int64_t unix_ms);
  Result<std::vector<JobEvent>> events(std::int64_t seq, std::int64_t after);

  // Takes the place of one with the same name. Errors: Io.
  Result<> put_artefact(std::int64_t seq, const Artefact& artefact);
  // Nothing if there is none, or retention took it. Errors: Corrupt.
  Result<std::optional<Artefact>> artefact(std::int64_t seq, std::string_view name);
  // All of a job's, by name.
  Result<std::vector<ArtefactHead>> artefacts(std::int64_t seq);
  // Takes away what is beyond `limits`: jobs that ended too long ago, latents whose time is over;
  // then, while all together is too large, oldest first: pictures, latents, whole jobs. Jobs that
  // are not over are left alone. Returns how many artefacts, latents and jobs went.
  Result<std::uint64_t> retain(const Retention& limits, std::int64_t unix_ms);

  // Latents that members keep (journal_latents.cc). Takes the place of one with the same id.
  Result<> put_latent(const LatentRecord& latent, std::string_view bytes);
  // All, also those that are gone and not forgotten.
  Result<std::vector<LatentRecord>> latents();
  // Nothing if there is none, or it is gone. Errors: Corrupt.
  Result<std::optional<std::string>> latent_bytes(std::string_view id);
  // Its bytes go; that it was remains.
  Result<> drop_latent(std::string_view id, std::int64_t unix_ms);
  Result<> share_latent(std::string_view id, MemberId with);

  // Webhooks (journal_webhooks.cc): due once their job is over.
  Result<std::optional<Webhook>> webhook(std::int64_t seq);
  Result<std::vector<DueWebhook>> due_webhooks(std::int64_t unix_ms, std::uint32_t limit);
  // What a try came to. Nothing happens to one that is not due any more.
  Result<> save_webhook(std::int64_t seq, const Webhook& webhook);

  Result<> record(std::span<const UsageRow> rows);  // Of requests that are no jobs.
  Result<> save_totals(const DeviceTotals& totals);

  // What is wrong with the ledger, a sentence each; nothing if it is exact. See journal_ledger.cc.
  Result<std::vector<std::string>> check();
  // Where the device's time went, over all runs; `of_members` is what the usage rows sum up to.
  struct Times {
    DeviceTotals totals;
    Duration of_members{};
  };
  Result<Times> times();

  // Everything at one moment, blobs included, as one file that can take the place of lares.db; the
  // server may go on meanwhile. Errors: Conflict (the file is there already), Io.
  Result<> backup(const std::string& path);

  Database& database() { return database_; }

 private:
  Journal(Database database, BlobStore blobs)
      : database_(std::move(database)), blobs_(std::move(blobs)) {}

  Result<> expire(std::int64_t seq, std::int64_t unix_ms);
  Result<> drop_artefact(std::int64_t seq, std::string_view name);
  Result<> add_webhook(std::int64_t seq, std::string_view url);
  Result<> set_webhook_due(std::int64_t seq, std::int64_t unix_ms);
  Result<std::string> put_blob(std::string_view bytes);
  Result<> release_blob(const std::string& hash);
  Result<std::uint64_t> retain_latents(const Retention& limits, std::int64_t unix_ms);
  Result<bool> drop_oldest_latent(std::int64_t unix_ms);
  Result<std::int64_t> bytes_kept();
  Result<Duration> close_attempt(std::int64_t seq, const std::string& reason,
                                 std::optional<Duration> device, std::int64_t unix_ms);

  Database database_;
  BlobStore blobs_;
  std::int64_t session_ = 0;
  std::optional<Transaction> transaction_;
  std::vector<std::string> doomed_;  // Blobs to be removed once this transaction is committed.
  std::vector<std::string> fresh_;   // Blobs that it wrote.
};

}  // namespace lares::store
