// What a probe child writes to its descriptor before it ends.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "engine/engine.h"

namespace lares::worker {

inline constexpr std::size_t kProbeResultMax = std::size_t{1} << 20U;  // Bytes.

std::string encode_probe_result(const Result<engine::ModelInfo>& result);

// Errors: the one that was encoded, or Corrupt for bytes that are no such result.
Result<engine::ModelInfo> decode_probe_result(std::string_view bytes);

}  // namespace lares::worker
