#include "server/image_form.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/json.h"
#include "core/text.h"
#include "server/multipart.h"

namespace lares::server {
namespace {

constexpr std::array<std::string_view, 6> kNumbers{"n",   "seed",     "steps",
                                                   "cfg", "strength", "partial_images"};

tl::unexpected<ApiError> wrong(std::string_view param, std::string message, std::string code = "") {
  ApiError error;
  error.code = Code::Invalid;
  error.param = param;
  error.error_code = std::move(code);
  error.message = std::move(message);
  return tl::unexpected(std::move(error));
}

tl::expected<json::Value, ApiError> value_of(const FormPart& part) {
  const std::string text(part.data);
  if (std::ranges::find(kNumbers, part.name) != kNumbers.end()) {
    std::int64_t whole = 0;
    const char* const last = text.data() + text.size();
    if (const auto [end, error] = std::from_chars(text.data(), last, whole);
        error == std::errc{} && end == last) {
      return json::Value(whole);
    }
    double number = 0;
    if (const auto [end, error] = std::from_chars(text.data(), last, number);
        error == std::errc{} && end == last) {
      return json::Value(number);
    }
    return wrong(part.name, fmt::format("{} must be a number", part.name));
  }
  if (part.name == "stream") {
    if (text == "true" || text == "false") return json::Value(text == "true");
    return wrong(part.name, "stream must be true or false");
  }
  if (!is_utf8(text)) return wrong(part.name, fmt::format("{} must be UTF-8", part.name));
  return json::Value(text);
}

}  // namespace

tl::expected<std::string, ApiError> image_form_json(std::string_view content_type,
                                                    std::string_view body) {
  const auto parts = read_multipart(content_type, body);
  if (!parts) {
    auto error = wrong("", "the form cannot be read: " + parts.error().message, "form_malformed");
    error.value().code = parts.error().code;
    return error;
  }
  json::Object out;
  for (const FormPart& part : *parts) {
    const std::string name = part.name == "image[]" ? "image" : part.name;
    if (name == "mask")
      return wrong("mask", "masks are not taken yet; the whole picture is made anew");
    const bool twice = std::ranges::any_of(out, [&](const auto& m) { return m.first == name; });
    if (twice) {
      return wrong(name, name == "image" ? "one image is taken so far"
                                         : fmt::format("{} is there twice", name));
    }
    if (name == "image") {
      out.emplace_back(name, base64_of(part.data));
      continue;
    }
    auto value = value_of(part);
    if (!value) return tl::unexpected(std::move(value.error()));
    out.emplace_back(name, std::move(*value));
  }
  return json::to_text(json::Value(std::move(out)));
}

}  // namespace lares::server
