// Bodies of the type multipart/form-data (RFC 7578), as forms with files send them.
//
// Strict: what a client's library writes is read, and what is ambiguous is refused. Parts are views
// into the body. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace lares::server {

struct FormPart {
  std::string name{};       // Of the field.
  std::string file_name{};  // "" if it is no file.
  std::string type{};       // "image/png"; "" if it was not said.
  std::string_view data{};
};

struct MultipartLimits {
  std::uint32_t parts = 64;
  std::uint32_t head_bytes = 4096;  // Of one part.
};

// Whether the Content-Type names such a body.
bool is_multipart(std::string_view content_type);

// Errors: Invalid (with what is wrong), TooLarge (the limits).
Result<std::vector<FormPart>> read_multipart(std::string_view content_type, std::string_view body,
                                             const MultipartLimits& limits = {});

}  // namespace lares::server
