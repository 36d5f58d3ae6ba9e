// The form that OpenAI's clients send to /v1/images/edits, as the JSON that stands for it here:
//
//   image, prompt, model, n, size, seed, strength ... -> {"image": base64, "prompt": ..., "n": 2}
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "server/errors.h"

namespace lares::server {

// Errors: a form that is none, with `form_malformed`; fields that make no sense, which they name.
tl::expected<std::string, ApiError> image_form_json(std::string_view content_type,
                                                    std::string_view body);

}  // namespace lares::server
