// Sketches that were taken on, in memory: where they stand, what they put out, and who listens.
//
// What the loop says arrives through a sink and is worked on by a thread of its own (pictures are
// packed there), in order. Finished ones stay for a while, within a limit of bytes. Shared; any
// thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/generation.h"
#include "server/latents.h"

namespace lares::server {

// One file of a sketch.
struct SketchFile {
  std::uint32_t index = 0;
  std::string medium{}, bytes{};
  engine::PictureSize size{};  // Of a picture.
};

// What of a sketch can be used again as `lat:ID`.
struct SketchHandle {
  std::uint32_t index = 0;
  std::string name{}, id{};
  std::int64_t expires_unix_ms = 0;
};

struct SketchStatus {
  enum class At : std::uint8_t { Waiting, Running, Done, Failed, Cancelled };
  JobId id;
  MemberId member;
  At at = At::Waiting;
  std::uint64_t created = 0;  // Unix seconds.
  SketchProgress progress{};
  std::vector<SketchFile> files{};  // By index.
  std::vector<SketchHandle> kept{};
  std::string preview{};  // The newest, as PNG.
  std::optional<SketchDone> done{};
  Duration packing{};            // Writing the files' formats.
  std::optional<Ended> ended{};  // With the reason, if it did not end well.
};
// {"id":"sketch-12","object":"sketch","status":"done",...}; of a job of the journal, under its id.
std::string status_json(const SketchStatus& status, std::string_view journal_id = "");
// Where a file of it can be fetched.
std::string file_path(const SketchStatus& status, std::uint32_t index, std::string_view journal_id);
// "image/png"
std::string_view media_type(std::string_view medium);
std::string sketch_id(JobId job);
std::optional<JobId> job_of_sketch(std::string_view id);

// What listeners hear of: "progress", "preview", "output", "end".
using SketchListener = std::function<void(std::string_view event, const SketchStatus& status)>;

class SketchJobs {
 public:
  struct Options {
    std::uint64_t bytes_max = 512U << 20U;  // Of files that are kept.
    std::size_t jobs_max = 1024;
    Duration keep = std::chrono::hours(1);  // After the end.
    std::function<Instant()> now;
    std::function<std::uint64_t()> unix_seconds;
    Latents* latents = nullptr;  // Must outlive it; without, nothing is kept.
  };
  explicit SketchJobs(Options options);
  ~SketchJobs();
  SketchJobs(const SketchJobs&) = delete;
  SketchJobs& operator=(const SketchJobs&) = delete;

  class Sink;
  // For one sketch; `listener` hears of it from the first event on, on the thread here. `journal`:
  // the job of the journal, if it is an attempt of one.
  std::shared_ptr<Sink> begin(MemberId member, std::string journal, SketchListener listener);

  // Hands over the status, on the thread here: nothing if there is none of that member.
  void ask(JobId job, std::optional<MemberId> member,
           std::function<void(const SketchStatus*)> done);
  // Listens from now on, after one call with the event "status". False, on the thread here, if
  // there is none of that member.
  void listen(JobId job, std::optional<MemberId> member, SketchListener listener,
              std::function<void()> unknown);
  // All of that member that have not ended.
  void ask_running(MemberId member,
                   std::function<void(const std::vector<const SketchStatus*>&)> done);

 private:
  struct Entry {
    SketchStatus status;
    std::vector<SketchListener> listeners;
    Instant ended_at{};
    std::string journal{};
    // Latents on their way to the disk. The end waits for them; what failed is its error.
    std::uint32_t keeping = 0;
    std::optional<Ended> ends{};
    std::optional<Error> not_kept{};
  };
  void post(std::function<void()> task);
  void run();
  void take(const std::shared_ptr<Entry>& entry, GenerationEvent event);
  void keep(const std::shared_ptr<Entry>& entry, const SketchKeep& keep);
  void was_kept(const std::shared_ptr<Entry>& entry, SketchHandle handle, const Result<>& written);
  void end(const std::shared_ptr<Entry>& entry, Ended ended);
  static void tell(Entry& entry, std::string_view event);
  void tidy_up();

  const Options options_;
  std::map<JobId, std::shared_ptr<Entry>> entries_;  // The thread's own.
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

class SketchJobs::Sink final : public GenerationSink {
 public:
  Sink(SketchJobs& jobs, std::shared_ptr<Entry> entry) : jobs_(jobs), entry_(std::move(entry)) {}
  void on_event(GenerationEvent event) override;
  // Once it has an id; what came before is taken now.
  void set_job(JobId job);

 private:
  SketchJobs& jobs_;
  std::shared_ptr<Entry> entry_;
  std::mutex mutex_;
  bool named_ = false;
  std::vector<GenerationEvent> early_;
};

}  // namespace lares::server
