#include "server/latents.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace lares::server {

static_assert(std::endian::native == std::endian::little, "latents are kept little endian");

void Latents::load(std::vector<store::LatentRecord> latents) {
  const std::scoped_lock lock(mutex_);
  all_.clear();
  for (store::LatentRecord& latent : latents) {
    const std::string id = latent.id;
    all_[id] = std::move(latent);
  }
}

bool Latents::is_gone(const store::LatentRecord& latent) const {
  return latent.gone_unix_ms > 0 || latent.expires_unix_ms <= unix_ms_();
}

namespace {

bool may_use(const store::LatentRecord& latent, MemberId member) {
  return latent.member_id == member ||
         std::ranges::find(latent.shared, member) != latent.shared.end();
}

}  // namespace

Latents::Found Latents::find(std::string_view id, MemberId member) const {
  const std::scoped_lock lock(mutex_);
  const auto found = all_.find(id);
  if (found == all_.end() || !may_use(found->second, member)) return {};
  return {is_gone(found->second) ? Standing::Gone : Standing::There, found->second};
}

std::vector<store::LatentRecord> Latents::list(MemberId member) const {
  std::vector<store::LatentRecord> theirs;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, latent] : all_) {
      if (may_use(latent, member) && !is_gone(latent)) theirs.push_back(latent);
    }
  }
  std::ranges::sort(theirs, [](const auto& a, const auto& b) {
    return std::pair(b.created_unix_ms, a.id) < std::pair(a.created_unix_ms, b.id);
  });
  return theirs;
}

std::vector<sketch::Kept> Latents::kept(MemberId member) const {
  std::vector<sketch::Kept> kept;
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, latent] : all_) {
    if (!may_use(latent, member)) continue;
    sketch::Kept& one = kept.emplace_back();
    one.id = id;
    one.space = {.name = latent.space,
                 .family = latent.family,
                 .channels = latent.channels,
                 .factor = latent.factor,
                 .scale = sketch::Decimal::millionths(latent.scale_millionths),
                 .shift = sketch::Decimal::millionths(latent.shift_millionths)};
    one.cells = {latent.width, latent.height};
    one.dtype = latent.dtype;
    if (latent.noise) {
      one.noise = sketch::Noise{.done = latent.noise->done,
                                .steps = latent.noise->steps,
                                .sampler = latent.noise->sampler,
                                .cfg_millionths = latent.noise->cfg_millionths};
    }
    one.expired = is_gone(latent);
  }
  return kept;
}

void Latents::keep(store::LatentRecord latent, std::string bytes,
                   std::function<void(Result<>)> done) {
  if (list(latent.member_id).size() >= kEachMax) {
    return done(fail(Code::TooLarge,
                     fmt::format("{} latents are kept already, the most; remove some with DELETE "
                                 "/v1/latents/ID",
                                 kEachMax)));
  }
  latent.size = bytes.size();
  JournalOp op;
  op.work = [latent, bytes = std::move(bytes)](store::Journal& journal) {
    return journal.put_latent(latent, bytes);
  };
  op.done = [this, latent, done = std::move(done)](const Result<>& written) {
    if (written) {
      const std::scoped_lock lock(mutex_);
      all_[latent.id] = latent;
    }
    done(written);
  };
  journal_->post(std::move(op));
}

void Latents::read(std::vector<std::string> ids, std::function<void(Result<KeptLatents>)> done) {
  const auto read = std::make_shared<KeptLatents>();
  std::vector<store::LatentRecord> records;
  {
    const std::scoped_lock lock(mutex_);
    for (const std::string& id : ids) {
      if (const auto found = all_.find(id); found != all_.end()) records.push_back(found->second);
    }
  }
  JournalOp op;
  op.work = [read, records = std::move(records)](store::Journal& journal) -> Result<> {
    for (const store::LatentRecord& record : records) {
      const auto bytes = TRY(journal.latent_bytes(record.id));
      if (!bytes)
        return fail(Code::NotFound, fmt::format("`lat:{}` is not kept any more", record.id));
      (*read)[record.id] = std::make_shared<const KeptLatent>(TRY(kept_latent(record, *bytes)));
    }
    return {};
  };
  op.done = [read, done = std::move(done)](const Result<>& result) {
    if (!result) return done(tl::unexpected(result.error()));
    done(std::move(*read));
  };
  journal_->post(std::move(op));
}

void Latents::remove(const std::string& id, std::function<void(Result<>)> done) {
  JournalOp op;
  op.work = [id, ms = unix_ms_()](store::Journal& journal) { return journal.drop_latent(id, ms); };
  op.done = [this, id, ms = unix_ms_(), done = std::move(done)](const Result<>& written) {
    if (written) {
      const std::scoped_lock lock(mutex_);
      if (const auto found = all_.find(id); found != all_.end()) found->second.gone_unix_ms = ms;
    }
    done(written);
  };
  journal_->post(std::move(op));
}

void Latents::share(const std::string& id, MemberId with, std::function<void(Result<>)> done) {
  JournalOp op;
  op.work = [id, with](store::Journal& journal) { return journal.share_latent(id, with); };
  op.done = [this, id, with, done = std::move(done)](const Result<>& written) {
    if (written) {
      const std::scoped_lock lock(mutex_);
      const auto found = all_.find(id);
      if (found != all_.end() && !may_use(found->second, with))
        found->second.shared.push_back(with);
    }
    done(written);
  };
  journal_->post(std::move(op));
}

CatalogueNow catalogue_for(const Service& service, const Latents* latents, MemberId member) {
  CatalogueNow now = service.catalogue();
  if (latents != nullptr) now.catalogue.kept = latents->kept(member);
  return now;
}

store::LatentRecord latent_record(const SketchKeep& keep) {
  const sketch::Space& space = keep.type.space;
  store::LatentRecord latent;
  latent.name = keep.name;
  latent.space = keep.type.name;
  latent.family = space.family;
  latent.channels = space.channels;
  latent.factor = space.factor;
  latent.scale_millionths = space.scale.in_millionths().value_or(0);
  latent.shift_millionths = space.shift.in_millionths().value_or(0);
  latent.width = keep.type.size.width;
  latent.height = keep.type.size.height;
  if (keep.type.noise) {
    const sketch::Noise& noise = *keep.type.noise;
    latent.noise = store::LatentNoise{.done = noise.done,
                                      .steps = noise.steps,
                                      .sampler = noise.sampler,
                                      .cfg_millionths = noise.cfg_millionths,
                                      .seed = keep.seed};
  }
  return latent;
}

std::string latent_bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Result<KeptLatent> kept_latent(const store::LatentRecord& latent, std::string_view bytes) {
  const std::size_t count = std::size_t{latent.channels} * latent.width * latent.height;
  if (latent.dtype != "f32" || bytes.size() != count * sizeof(float)) {
    return fail(Code::Corrupt, fmt::format("lat:{} has {} bytes, which are not {} values of {}",
                                           latent.id, bytes.size(), count, latent.dtype));
  }
  KeptLatent kept;
  kept.latent.size = {latent.width * latent.factor, latent.height * latent.factor};
  kept.latent.values.resize(count);
  std::memcpy(kept.latent.values.data(), bytes.data(), bytes.size());
  if (latent.noise) kept.seed = latent.noise->seed;
  return kept;
}

}  // namespace lares::server
