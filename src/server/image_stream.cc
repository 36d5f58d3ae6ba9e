#include "server/image_stream.h"

#include <fmt/format.h>

#include "core/base64.h"
#include "server/errors.h"

namespace lares::server {

void ImageStream::on(std::string_view event, const SketchStatus& status) {
  if (event == "end") return end(status);
  if (event != "preview" || sent_ == partial_) return;
  // Evenly over the steps.
  const std::uint64_t done = status.progress.done, total = status.progress.total;
  if (done * (partial_ + 1) < total * (sent_ + 1)) return;
  send(name_ + ".partial_image", status.created, status.preview,
       fmt::format(",\"partial_image_index\":{}", sent_++));
}

// The answer's head goes out with the first of them: until then an error has its own status.
void ImageStream::send(const std::string& type, std::uint64_t created, const std::string& png,
                       const std::string& more) {
  if (!begun_) answer_->begin_stream("text/event-stream");
  begun_ = true;
  answer_->send(fmt::format(
      "event: {}\ndata: {{\"type\":\"{}\",\"b64_json\":\"{}\",\"created_at\":{},"
      "\"output_format\":\"png\",\"background\":\"opaque\",\"quality\":\"auto\"{}}}\n\n",
      type, type, base64_of(png), created, more));
}

void ImageStream::end(const SketchStatus& status) {
  if (status.ended->error) {
    const ApiError error = api_error(*status.ended);
    if (!begun_) return answer_->fail(error);
    answer_->send("event: error\ndata: " + error_body(error) + "\n\n");
    return answer_->end_stream();
  }
  for (const SketchFile& file : status.files) {
    send(name_ + ".completed", status.created, file.bytes,
         fmt::format(",\"size\":\"{}x{}\",\"usage\":{{\"input_tokens\":0,\"output_tokens\":0,"
                     "\"total_tokens\":0,\"input_tokens_details\":{{\"image_tokens\":0,"
                     "\"text_tokens\":0}}}}",
                     file.size.width, file.size.height));
  }
  answer_->end_stream();
}

}  // namespace lares::server
