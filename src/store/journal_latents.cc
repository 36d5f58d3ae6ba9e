// The journal's latents: kept on behalf of members, with counted references like artefacts.
#include "store/journal.h"

namespace lares::store {
namespace {

LatentRecord latent_of(const Statement& row) {
  LatentRecord latent;
  latent.id = row.text(0);
  latent.member_id = MemberId{static_cast<std::uint32_t>(row.integer(1))};
  latent.name = row.text(2);
  latent.space = row.text(3);
  latent.family = row.text(4);
  latent.channels = static_cast<std::uint32_t>(row.integer(5));
  latent.factor = static_cast<std::uint32_t>(row.integer(6));
  latent.scale_millionths = row.integer(7);
  latent.shift_millionths = row.integer(8);
  latent.width = static_cast<std::uint32_t>(row.integer(9));
  latent.height = static_cast<std::uint32_t>(row.integer(10));
  latent.dtype = row.text(11);
  if (!row.is_null(12)) {
    latent.noise = LatentNoise{.done = static_cast<std::uint32_t>(row.integer(12)),
                               .steps = static_cast<std::uint32_t>(row.integer(13)),
                               .sampler = std::string(row.text(14)),
                               .cfg_millionths = row.integer(15),
                               .seed = static_cast<std::uint64_t>(row.integer(16))};
  }
  latent.created_unix_ms = row.integer(17);
  latent.expires_unix_ms = row.integer(18);
  latent.size = static_cast<std::uint64_t>(row.integer(19));
  latent.gone_unix_ms = row.integer(20);
  return latent;
}

void bind_facts(Statement& insert, const LatentRecord& latent) {
  insert.bind(latent.id);
  insert.bind(std::int64_t{latent.member_id.value});
  for (const std::string* text : {&latent.name, &latent.space, &latent.family}) insert.bind(*text);
  for (const std::int64_t number :
       {std::int64_t{latent.channels}, std::int64_t{latent.factor}, latent.scale_millionths,
        latent.shift_millionths, std::int64_t{latent.width}, std::int64_t{latent.height}}) {
    insert.bind(number);
  }
  insert.bind(latent.dtype);
  if (latent.noise) {
    insert.bind(std::int64_t{latent.noise->done});
    insert.bind(std::int64_t{latent.noise->steps});
    insert.bind(latent.noise->sampler);
    insert.bind(latent.noise->cfg_millionths);
    insert.bind(static_cast<std::int64_t>(latent.noise->seed));
  } else {
    for (int i = 0; i < 5; ++i) insert.bind_null();
  }
  insert.bind(latent.created_unix_ms);
  insert.bind(latent.expires_unix_ms);
}

}  // namespace

Result<> Journal::put_latent(const LatentRecord& latent, std::string_view bytes) {
  TRY_VOID(drop_latent(latent.id, latent.created_unix_ms));
  Statement insert = TRY(database_.prepare(
      "INSERT OR REPLACE INTO latent (id, member_id, name, space, family, channels, factor, "
      "scale_millionths, shift_millionths, width, height, dtype, noise_done, noise_steps, sampler, "
      "cfg_millionths, seed, created_unix_ms, expires_unix_ms, size, bytes, blob) "
      "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  bind_facts(insert, latent);
  insert.bind(static_cast<std::int64_t>(bytes.size()));
  if (bytes.size() <= kInlineBytesMax) {
    insert.bind_bytes(bytes);
    insert.bind_null();
    return insert.run();
  }
  const std::string hash = TRY(put_blob(bytes));
  insert.bind_null();
  insert.bind(hash);
  return insert.run();
}

Result<std::vector<LatentRecord>> Journal::latents() {
  Statement query = TRY(database_.prepare(
      "SELECT id, member_id, name, space, family, channels, factor, scale_millionths, "
      "shift_millionths, width, height, dtype, noise_done, noise_steps, sampler, cfg_millionths, "
      "seed, created_unix_ms, expires_unix_ms, size, gone_unix_ms FROM latent "
      "ORDER BY created_unix_ms, id"));
  std::vector<LatentRecord> latents;
  while (TRY(query.row())) latents.push_back(latent_of(query));
  Statement share =
      TRY(database_.prepare("SELECT member_id FROM latent_share WHERE latent = ? ORDER BY 1"));
  for (LatentRecord& latent : latents) {
    share.reset();
    share.bind(latent.id);
    while (TRY(share.row()))
      latent.shared.push_back(MemberId{static_cast<std::uint32_t>(share.integer(0))});
  }
  return latents;
}

Result<std::optional<std::string>> Journal::latent_bytes(std::string_view id) {
  Statement query =
      TRY(database_.prepare("SELECT bytes, blob FROM latent WHERE id = ? AND gone_unix_ms = 0"));
  query.bind(id);
  if (!TRY(query.row())) return std::optional<std::string>();
  if (!query.is_null(1)) return std::optional(TRY(blobs_.get(std::string(query.text(1)))));
  return std::optional(std::string(query.bytes(0)));
}

Result<> Journal::drop_latent(std::string_view id, std::int64_t unix_ms) {
  Statement query =
      TRY(database_.prepare("SELECT blob FROM latent WHERE id = ? AND gone_unix_ms = 0"));
  query.bind(id);
  if (!TRY(query.row())) return {};
  const std::string hash(query.text(0));
  query.reset();
  Statement gone = TRY(database_.prepare(
      "UPDATE latent SET bytes = NULL, blob = NULL, gone_unix_ms = ? WHERE id = ?"));
  gone.bind(unix_ms);
  gone.bind(id);
  TRY_VOID(gone.run());
  return hash.empty() ? Result<>() : release_blob(hash);
}

Result<> Journal::share_latent(std::string_view id, MemberId with) {
  Statement insert =
      TRY(database_.prepare("INSERT OR IGNORE INTO latent_share (latent, member_id) VALUES (?,?)"));
  insert.bind(id);
  insert.bind(std::int64_t{with.value});
  return insert.run();
}

// Those whose time is over; those long gone are forgotten altogether.
Result<std::uint64_t> Journal::retain_latents(const Retention& limits, std::int64_t unix_ms) {
  constexpr std::int64_t kMs = 1'000'000;
  Statement over = TRY(database_.prepare(
      "SELECT id FROM latent WHERE gone_unix_ms = 0 AND expires_unix_ms <= ? LIMIT 1000"));
  over.bind(unix_ms);
  std::vector<std::string> doomed;
  while (TRY(over.row())) doomed.emplace_back(over.text(0));
  for (const std::string& id : doomed) TRY_VOID(drop_latent(id, unix_ms));
  for (const char* sql :
       {"DELETE FROM latent WHERE gone_unix_ms > 0 AND gone_unix_ms < ?1",
        "DELETE FROM latent_share WHERE ?1 > 0 AND latent NOT IN (SELECT id FROM latent)"}) {
    Statement forget = TRY(database_.prepare(sql));
    forget.bind(unix_ms - limits.keep_expired.count() / kMs);
    TRY_VOID(forget.run());
  }
  return doomed.size();
}

Result<bool> Journal::drop_oldest_latent(std::int64_t unix_ms) {
  Statement oldest = TRY(database_.prepare(
      "SELECT id FROM latent WHERE gone_unix_ms = 0 ORDER BY created_unix_ms LIMIT 1"));
  if (!TRY(oldest.row())) return false;
  const std::string id(oldest.text(0));
  oldest.reset();
  TRY_VOID(drop_latent(id, unix_ms));
  return true;
}

}  // namespace lares::store
