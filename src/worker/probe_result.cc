#include "worker/probe_result.h"

#include <utility>

#include "worker/codec.h"
#include "worker/message.h"

namespace lares::worker {

std::string encode_probe_result(const Result<engine::ModelInfo>& result) {
  std::string out;
  ArchiveWriter archive(out);
  archive(kProtocolVersion);
  archive(result.has_value());
  if (result) {
    archive(*result);
  } else {
    archive(result.error());
  }
  return out;
}

Result<engine::ModelInfo> decode_probe_result(std::string_view bytes) {
  ArchiveReader archive(bytes);
  std::uint16_t version = 0;
  bool well = false;
  archive(version);
  archive(well);
  engine::ModelInfo info;
  Error error;
  if (well) {
    archive(info);
  } else {
    archive(error);
  }
  if (!archive.done() || version != kProtocolVersion) {
    return fail(Code::Corrupt, "the probe's result is malformed");
  }
  if (!well) return tl::unexpected(std::move(error));
  return info;
}

}  // namespace lares::worker
