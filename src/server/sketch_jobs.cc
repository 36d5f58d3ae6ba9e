#include "server/sketch_jobs.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"
#include "server/errors.h"
#include "server/png.h"

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

std::string status_json(const SketchStatus& status) {
  const std::string id = sketch_id(status.id);
  std::string files;
  for (const SketchFile& file : status.files) {
    files += fmt::format(
        "{}{{\"index\":{},\"medium\":\"{}\",\"bytes\":{},\"width\":{},\"height\":{},"
        "\"url\":\"/v1/sketches/{}/results/{}\"}}",
        files.empty() ? "" : ",", file.index, file.medium, file.bytes.size(), file.size.width,
        file.size.height, id, file.index);
  }
  std::string error = "null";
  if (status.ended && status.ended->error) {
    error = error_body(api_error(*status.ended));  // {"error":{...}}
    error = error.substr(9, error.size() - 10);
  }
  return fmt::format(
      "{{\"id\":\"{}\",\"object\":\"sketch\",\"status\":\"{}\",\"created\":{},\"step\":{},"
      "\"total\":{},\"outputs\":[{}],\"error\":{},\"record\":{}}}",
      id, name_of(status.at), status.created, status.progress.done, status.progress.total, files,
      error, record_json(status));
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

std::shared_ptr<SketchJobs::Sink> SketchJobs::begin(MemberId member, SketchListener listener) {
  const auto entry = std::make_shared<Entry>();
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
  } else if (auto* ended = std::get_if<Ended>(&event)) {
    const bool cancelled = ended->error && ended->error_code == "cancelled";
    status.at = cancelled      ? SketchStatus::At::Cancelled
                : ended->error ? SketchStatus::At::Failed
                               : SketchStatus::At::Done;
    status.ended = std::move(*ended);
    status.preview.clear();
    entry->ended_at = options_.now();
    tell(*entry, "end");
    entry->listeners.clear();
    tidy_up();
  }
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
