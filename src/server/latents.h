// The latents that members keep: an index of all of them in memory, their values in the journal.
//
// A member has their own and those that were shared with them; of others they hear nothing. What is
// told here to be kept is on the disk. Shared; any thread; nothing blocks, answers come on the
// journal's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "server/journal_writer.h"
#include "server/service.h"
#include "server/sketch_values.h"
#include "sketch/catalogue.h"
#include "store/latent_record.h"

namespace lares::server {

class Latents {
 public:
  static constexpr std::size_t kEachMax = 1000;  // Of one member, at once.

  Latents(std::shared_ptr<JournalWriter> journal, std::function<std::int64_t()> unix_ms)
      : journal_(std::move(journal)), unix_ms_(std::move(unix_ms)) {}

  // As the journal has them: at the start, and after retention took some away.
  void load(std::vector<store::LatentRecord> latents);

  enum class Standing : std::uint8_t { Unknown, Gone, There };
  struct Found {
    Standing standing = Standing::Unknown;
    store::LatentRecord latent{};
  };
  // Unknown is another's, too.
  [[nodiscard]] Found find(std::string_view id, MemberId member) const;
  // Those that are there, the newest first.
  [[nodiscard]] std::vector<store::LatentRecord> list(MemberId member) const;
  // For a planner, with those that are gone.
  [[nodiscard]] std::vector<sketch::Kept> kept(MemberId member) const;

  // Errors: TooLarge (kEachMax), Io.
  void keep(store::LatentRecord latent, std::string bytes, std::function<void(Result<>)> done);
  // Of what find() found. Errors: NotFound (it went meanwhile), Corrupt, Io.
  void read(std::vector<std::string> ids, std::function<void(Result<KeptLatents>)> done);
  void remove(const std::string& id, std::function<void(Result<>)> done);
  void share(const std::string& id, MemberId with, std::function<void(Result<>)> done);

 private:
  [[nodiscard]] bool is_gone(const store::LatentRecord& latent) const;

  const std::shared_ptr<JournalWriter> journal_;
  const std::function<std::int64_t()> unix_ms_;
  mutable std::mutex mutex_;
  std::map<std::string, store::LatentRecord, std::less<>> all_;
};

// What a member's sketches are planned with. `latents` may be null.
CatalogueNow catalogue_for(const Service& service, const Latents* latents, MemberId member);

// What a sketch keeps, as a record; without an id, a member and times.
store::LatentRecord latent_record(const SketchKeep& keep);
std::string latent_bytes(const std::vector<float>& values);
// Errors: Corrupt, if there are fewer or more than the record says.
Result<KeptLatent> kept_latent(const store::LatentRecord& latent, std::string_view bytes);

}  // namespace lares::server
