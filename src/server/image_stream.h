// OpenAI's stream of one image call: pictures of what is becoming, then the whole ones.
//
//   event: image_generation.partial_image
//   data: {"type":"image_generation.partial_image","partial_image_index":0,"b64_json":...}
//
// Partial pictures have one pixel for each cell of the latent, and there may be fewer than were
// asked for. Owned by the listener of its sketch, on the sketches' thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/answer.h"
#include "server/sketch_jobs.h"

namespace lares::server {

class ImageStream {
 public:
  // `name`: "image_generation" or "image_edit".
  ImageStream(std::shared_ptr<Answer> answer, std::string_view name, std::uint32_t partial)
      : answer_(std::move(answer)), name_(name), partial_(partial) {}

  // As a SketchListener.
  void on(std::string_view event, const SketchStatus& status);

 private:
  void send(const std::string& type, std::uint64_t created, const std::string& png,
            const std::string& more);
  void end(const SketchStatus& status);

  const std::shared_ptr<Answer> answer_;
  const std::string name_;
  const std::uint32_t partial_;
  std::uint32_t sent_ = 0;
  bool begun_ = false;
};

}  // namespace lares::server
