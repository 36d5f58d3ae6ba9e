// Pieces of routes.cc that need none of its state. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/errors.h"
#include "server/http.h"
#include "store/usage.h"

namespace lares::server {

// What stands for {id} in `path` ("" if the template has none); nothing if it does not fit. Names
// of models may hold slashes.
std::optional<std::string_view> match(std::string_view path_template, std::string_view path);

// Whether its client may wait for the whole answer: it is no job already. (Whether it is a stream,
// which says meanwhile how it is, stands in its body: is_streamed().)
bool waits_for_answer(const HttpRequest& request, std::string_view route);

std::optional<store::UsageBy> usage_by(std::string_view name);

ApiError not_found(std::string message, std::string error_code);
ApiError server_stopping();

}  // namespace lares::server
