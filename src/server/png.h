// PNG pictures in and out. The library (libpng) is confined to png.cc. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "engine/picture.h"

namespace lares::server {

// Most pixels of a picture that comes in, each way.
inline constexpr std::uint32_t kPictureSideMax = 8192;

std::string png_of(const engine::Picture& picture);

// Sizes are checked before anything is unpacked; transparency is laid on white. Errors: Invalid (no
// PNG, or a broken one), TooLarge (with the limit).
Result<engine::Picture> read_png(std::string_view bytes);

}  // namespace lares::server
