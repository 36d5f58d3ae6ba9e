#include "server/png.h"

#include <fmt/format.h>
#include <png.h>

#include "core/assert.h"

namespace lares::server {
std::string png_of(const engine::Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.size.width;
  image.height = picture.size.height;
  image.format = PNG_FORMAT_RGB;
  // What cannot be packed is little more than the picture itself.
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(size, '\0');
  const int good =
      png_image_write_to_memory(&image, out.data(), &size, 0, picture.rgb.data(), 0, nullptr);
  LARES_ASSERT(good != 0, "{}x{} pixels became no PNG: {}", picture.size.width, picture.size.height,
               image.message);
  out.resize(size);
  return out;
}

Result<engine::Picture> read_png(std::string_view bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto broken = [&image] {
    const std::string why = image.message;
    png_image_free(&image);
    return fail(Code::Invalid, fmt::format("this is no PNG that can be read: {}", why));
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) return broken();
  if (image.width > kPictureSideMax || image.height > kPictureSideMax) {
    const auto [width, height] = std::pair(image.width, image.height);
    png_image_free(&image);
    return fail(Code::TooLarge, fmt::format("a picture of {}x{} pixels; at most {} each way", width,
                                            height, kPictureSideMax));
  }
  image.format = PNG_FORMAT_RGB;
  engine::Picture picture{.size = {image.width, image.height}, .rgb = {}};
  picture.rgb.resize(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, picture.rgb.data(), 0, nullptr) == 0) return broken();
  return picture;
}

}  // namespace lares::server
