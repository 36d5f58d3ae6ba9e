// Requests that make work, whichever API they speak: the paths, and whether a body can be done at
// all.
//
// Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "server/errors.h"
#include "server/openai_request.h"

namespace lares::server {

// "/v1/chat/completions", "/api/embed"...: what the journal can wrap.
bool makes_work(std::string_view path);
// All of them, for people.
std::string work_paths();

// Whether the body at that path asks for embeddings, whose class is another by default.
bool makes_embeddings(std::string_view path);

// Whether the path makes pictures, whose class is `image` by default.
bool makes_pictures(std::string_view path);

// Whether the answer comes in pieces.
bool is_streamed(std::string_view path, std::string_view body);

// What is wrong with a body, as its route would say it; nothing if it can be tried. Whether a
// picture can be made only its planner knows (sketch_request.h).
std::optional<ApiError> check_work(std::string_view path, std::string_view body,
                                   const RequestDefaults& defaults);

}  // namespace lares::server
