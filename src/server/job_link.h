// What ties a request in the loop to the job of the journal that it is an attempt of.
//
// The request's route hands it on (work_headers.h) with the Generation; a request that is no job
// has none. Calls come on the loop's thread, except where it says otherwise, and must not block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"
#include "server/generation.h"
#include "store/job_record.h"

namespace lares::server {

// How far an earlier attempt had got.
struct Resume {
  std::optional<std::uint64_t> seed{};
  std::string model{};  // Of whose vocabulary the tokens are: its name, and its file's stamp.
  std::vector<std::vector<std::int32_t>> tokens{};  // Of each choice, what was generated.
};

class JobLink {
 public:
  virtual ~JobLink() = default;
  [[nodiscard]] virtual const std::string& id() const = 0;
  [[nodiscard]] virtual const Resume& resume() const = 0;

  // It is about to be the loop's; then which request it is there. On the thread of its route.
  virtual void on_submit() = 0;
  virtual void on_submitted(JobId request) = 0;
  // Its first step is about to run.
  virtual void on_started() = 0;
  virtual void on_progress(store::Progress progress) = 0;
  // A file that it put out, beside its answer; before that is given. Any thread.
  virtual void on_file(store::Artefact file) = 0;
  // How it ended; before its client hears so.
  virtual void on_ended(const Ended& ended) = 0;
};

}  // namespace lares::server
