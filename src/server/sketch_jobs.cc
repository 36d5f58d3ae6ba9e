#include "server/sketch_jobs.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"
#include "server/errors.h"
#include "server/png.h"
#include "store/key.h"

namespace lares::server {
namespace {

constexpr std::string_view kPrefix = "sketch-";

std::string_view name_of(SketchStatus::At at) {
  switch (at) {
    case SketchStatus::At::Waiting: return "waiting";
    case SketchStatus::At::Running: return "running";
    case SketchStatus::At::Done: return "done";
    case SketchStatus::At::Failed: return "failed";
    case SketchStatus::At::Cancelled: return "cancelled";
  }
  return "?";
}

std::string record_json(const SketchStatus& status) {
  if (!status.done) return "null";
  const SketchDone& done = *status.done;
  const SketchCounts& n = done.counts;
  return fmt::format(
      "{{\"unet_steps\":{},\"decodes\":{},\"encodes\":{},\"text_encodes\":{},\"cache_hits\":{},"
      "\"bytes_copied\":{},\"clocks\":{{\"queue_wait_s\":{:.6f},\"model_load_s\":{:.6f},"
      "\"device_s\":{:.6f},\"packing_s\":{:.6f},\"total_s\":{:.6f}}}}}",
      n.unet_steps, n.decodes, n.encodes, n.text_encodes, n.cache_hits, n.bytes_copied,
      in_seconds(done.queue_wait), in_seconds(done.model_load), in_seconds(done.device),
      in_seconds(status.packing), in_seconds(done.total));
}

}  // namespace

std::string sketch_id(JobId job) {
  return fmt::format("{}{}", kPrefix, job.value);
}

std::optional<JobId> job_of_sketch(std::string_view id) {
  if (id.starts_with(kPrefix)) id.remove_prefix(kPrefix.size());
  JobId job;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), job.value);
  if (error != std::errc{} || end != id.data() + id.size()) return std::nullopt;
  return job;
}

std::string_view media_type(std::string_view medium) {
  if (medium == "png") return "image/png";
  if (medium == "json") return "application/json";
  return medium == "npy" ? "application/x-npy" : "text/plain; charset=utf-8";
}

std::string file_path(const SketchStatus& status, std::uint32_t index,
                      std::string_view journal_id) {
  if (!journal_id.empty()) return fmt::format("/v1/jobs/{}/result/{}", journal_id, index);
  return fmt::format("/v1/sketches/{}/results/{}", sketch_id(status.id), index);
}

std::string status_json(const SketchStatus& status, std::string_view journal_id) {
  const std::string id = journal_id.empty() ? sketch_id(status.id) : std::string(journal_id);
  std::string files;
  for (const SketchFile& file : status.files) {
    files += fmt::format(
        "{}{{\"index\":{},\"medium\":\"{}\",\"bytes\":{},\"width\":{},\"height\":{},"
        "\"url\":\"{}\"}}",
        files.empty() ? "" : ",", file.index, file.medium, file.bytes.size(), file.size.width,
        file.size.height, file_path(status, file.index, journal_id));
  }
  std::string kept;
  for (const SketchHandle& handle : status.kept) {
    kept += fmt::format("{}{{\"name\":{},\"handle\":\"lat:{}\",\"expires\":{}}}",
                        kept.empty() ? "" : ",", json_quoted(handle.name), handle.id,
                        handle.expires_unix_ms / 1000);
  }
  std::string error = "null";
  if (status.ended && status.ended->error) {
    error = error_body(api_error(*status.ended));  // {"error":{...}}
    error = error.substr(9, error.size() - 10);
  }
  return fmt::format(
      "{{\"id\":\"{}\",\"object\":\"sketch\",\"status\":\"{}\",\"created\":{},\"step\":{},"
      "\"total\":{},\"outputs\":[{}],\"kept\":[{}],\"error\":{},\"record\":{}}}",
      id, name_of(status.at), status.created, status.progress.done, status.progress.total, files,
      kept, error, record_json(status));
}

SketchJobs::SketchJobs(Options options)
    : options_(std::move(options)), thread_([this] { run(); }) {}

SketchJobs::~SketchJobs() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SketchJobs::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

// What was posted before the end is still done: clients get their last words.
void SketchJobs::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

std::shared_ptr<SketchJobs::Sink> SketchJobs::begin(MemberId member, std::string journal,
                                                    SketchListener listener) {
  const auto entry = std::make_shared<Entry>();
  entry->journal = std::move(journal);
  entry->status.member = member;
  entry->status.created = options_.unix_seconds();
  if (listener) entry->listeners.push_back(std::move(listener));
  return std::make_shared<Sink>(*this, entry);
}

void SketchJobs::Sink::set_job(JobId job) {
  const std::lock_guard lock(mutex_);
  jobs_.post([self = entry_, job, &jobs = jobs_] {
    self->status.id = job;
    jobs.entries_[job] = self;
    jobs.tidy_up();
  });
  named_ = true;
  for (GenerationEvent& event : early_) {
    jobs_.post([&jobs = jobs_, entry = entry_, event = std::move(event)]() mutable {
      jobs.take(entry, std::move(event));
    });
  }
  early_.clear();
}

void SketchJobs::Sink::on_event(GenerationEvent event) {
  const std::lock_guard lock(mutex_);
  if (!named_) {
    early_.push_back(std::move(event));
    return;
  }
  jobs_.post([&jobs = jobs_, entry = entry_, event = std::move(event)]() mutable {
    jobs.take(entry, std::move(event));
  });
}

void SketchJobs::tell(Entry& entry, std::string_view event) {
  for (const SketchListener& listener : entry.listeners) listener(event, entry.status);
}

void SketchJobs::take(const std::shared_ptr<Entry>& entry, GenerationEvent event) {
  SketchStatus& status = entry->status;
  if (std::holds_alternative<Accepted>(event)) {
    status.at = SketchStatus::At::Running;
  } else if (const auto* progress = std::get_if<SketchProgress>(&event)) {
    status.progress = *progress;
    tell(*entry, "progress");
  } else if (const auto* preview = std::get_if<SketchPreview>(&event)) {
    status.preview = png_of(preview->picture);
    tell(*entry, "preview");
  } else if (auto* output = std::get_if<SketchOutput>(&event)) {
    const Instant begin = options_.now();
    SketchFile file{.index = output->index, .medium = output->medium, .size = output->picture.size};
    file.bytes = file.medium == "png" ? png_of(output->picture) : std::move(output->text);
    status.packing += options_.now() - begin;
    const auto place = std::ranges::upper_bound(status.files, file.index, {}, &SketchFile::index);
    status.files.insert(place, std::move(file));
    tell(*entry, "output");
  } else if (const auto* done = std::get_if<SketchDone>(&event)) {
    status.done = *done;
  } else if (const auto* kept = std::get_if<SketchKeep>(&event)) {
    keep(entry, *kept);
  } else if (auto* ended = std::get_if<Ended>(&event)) {
    if (entry->keeping == 0) return end(entry, std::move(*ended));
    entry->ends = std::move(*ended);
  }
}

void SketchJobs::keep(const std::shared_ptr<Entry>& entry, const SketchKeep& keep) {
  store::LatentRecord record = latent_record(keep);
  // The next attempt of a job puts its latents into the same places.
  const auto name = entry->journal.empty()
                        ? store::random_id("")
                        : Result<std::string>(fmt::format("{}/{}", entry->journal, keep.index));
  if (!name || options_.latents == nullptr) {
    entry->not_kept =
        name ? Error{Code::Unavailable, "this server has no journal to keep latents in"}
             : name.error();
    return;
  }
  record.id = store::digest(*name).substr(0, 20);
  record.member_id = entry->status.member;
  const std::int64_t now = static_cast<std::int64_t>(options_.unix_seconds()) * 1000;
  record.created_unix_ms = now;
  record.expires_unix_ms = now + keep.time.count() / 1'000'000;
  SketchHandle handle{.index = keep.index,
                      .name = keep.name,
                      .id = record.id,
                      .expires_unix_ms = record.expires_unix_ms};
  ++entry->keeping;
  options_.latents->keep(
      std::move(record), latent_bytes(keep.latent.values),
      [this, entry, handle](const Result<>& written) {
        post([this, entry, handle, written] { was_kept(entry, handle, written); });
      });
}

void SketchJobs::was_kept(const std::shared_ptr<Entry>& entry, SketchHandle handle,
                          const Result<>& written) {
  std::vector<SketchHandle>& kept = entry->status.kept;
  if (written) {
    const auto place = std::ranges::upper_bound(kept, handle.index, {}, &SketchHandle::index);
    kept.insert(place, std::move(handle));
  } else {
    entry->not_kept = written.error();
  }
  if (--entry->keeping == 0 && entry->ends) end(entry, *std::exchange(entry->ends, std::nullopt));
}

void SketchJobs::end(const std::shared_ptr<Entry>& entry, Ended ended) {
  SketchStatus& status = entry->status;
  if (entry->not_kept && !ended.error) {
    ended.error =
        Error{entry->not_kept->code, "a latent could not be kept: " + entry->not_kept->message};
    ended.error_code = "not_kept";
  }
  const bool cancelled = ended.error && ended.error_code == "cancelled";
  status.at = cancelled     ? SketchStatus::At::Cancelled
              : ended.error ? SketchStatus::At::Failed
                            : SketchStatus::At::Done;
  status.ended = std::move(ended);
  status.preview.clear();
  entry->ended_at = options_.now();
  tell(*entry, "end");
  entry->listeners.clear();
  tidy_up();
}

// Ended ones go when their time is over, or the oldest first for the limits.
void SketchJobs::tidy_up() {
  std::uint64_t bytes = 0;
  for (const auto& [id, entry] : entries_) {
    for (const SketchFile& file : entry->status.files) bytes += file.bytes.size();
  }
  const Instant now = options_.now();
  for (auto it = entries_.begin(); it != entries_.end();) {
    const SketchStatus& status = it->second->status;
    const bool over = bytes > options_.bytes_max || entries_.size() > options_.jobs_max ||
                      now > it->second->ended_at + options_.keep;
    if (!status.ended || !over) {
      ++it;
      continue;
    }
    for (const SketchFile& file : status.files) bytes -= file.bytes.size();
    it = entries_.erase(it);
  }
}

void SketchJobs::ask(JobId job, std::optional<MemberId> member,
                     std::function<void(const SketchStatus*)> done) {
  post([this, job, member, done = std::move(done)] {
    tidy_up();
    const auto found = entries_.find(job);
    const bool theirs =
        found != entries_.end() && (!member || found->second->status.member == *member);
    done(theirs ? &found->second->status : nullptr);
  });
}

void SketchJobs::listen(JobId job, std::optional<MemberId> member, SketchListener listener,
                        std::function<void()> unknown) {
  post([this, job, member, listener = std::move(listener), unknown = std::move(unknown)] {
    const auto found = entries_.find(job);
    if (found == entries_.end() || (member && found->second->status.member != *member))
      return unknown();
    listener("status", found->second->status);
    if (found->second->status.ended) return listener("end", found->second->status);
    found->second->listeners.push_back(listener);
  });
}

void SketchJobs::ask_running(MemberId member,
                             std::function<void(const std::vector<const SketchStatus*>&)> done) {
  post([this, member, done = std::move(done)] {
    std::vector<const SketchStatus*> running;
    for (const auto& [id, entry] : entries_) {
      if (entry->status.member == member && !entry->status.ended) running.push_back(&entry->status);
    }
    done(running);
  });
}

}  // namespace lares::server
