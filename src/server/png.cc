#include "server/png.h"

#include <array>

#include <fmt/format.h>
#include <png.h>

#include "core/assert.h"

namespace lares::server {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

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

std::string base64_of(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const auto byte = i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U;
      group = group << 8U | byte;
    }
    for (std::size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? kLetters[(group >> (18 - 6 * k)) & 63U] : '=';
  }
  return out;
}

std::optional<std::string> read_base64(std::string_view text) {
  if (text.starts_with("data:")) {
    const std::size_t comma = text.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    text.remove_prefix(comma + 1);
  }
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kLetters.size(); ++i)
    values[static_cast<unsigned char>(kLetters[i])] = static_cast<std::int8_t>(i);
  std::string out;
  std::uint32_t group = 0, bits = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char letter : text) {
    const std::int8_t value = values[static_cast<unsigned char>(letter)];
    if (value < 0) return std::nullopt;
    group = group << 6U | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>((group >> bits) & 255U);
  }
  return out;
}

}  // namespace lares::server
